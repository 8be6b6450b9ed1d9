//go:build race

package faults_test

// raced says that the race detector is on, under which all takes ten times as long.
const raced = true
