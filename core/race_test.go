//go:build race

package core_test

// raced says that the race detector is on, under which all takes ten times as long.
const raced = true
