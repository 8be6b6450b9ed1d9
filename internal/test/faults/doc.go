// Package faults holds nothing but tests: they break a real Redis in every way
// that production does, and hold the limiter to what docs/guarantees.md
// promises. `make faults` runs them and prints what they measured.
//
// A test here asserts what holds on any machine, however busy: counts, and
// times with room. What it measured it prints by figure.
package faults
