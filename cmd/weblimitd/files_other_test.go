//go:build !unix

package main_test

// openFiles returns how many files and connections the process may open, most at most.
func openFiles(most int) int { return most }
