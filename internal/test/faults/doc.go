// Package faults holds only tests. They break a real Redis in every way that
// production does, and check that the limiter keeps what docs/run/guarantees.md
// promises. `make faults` runs them and prints what they measured.
//
// The tests assert what holds on any machine, however busy: counts, and times with
// room to spare. They print what they measured with the function figure.
package faults
