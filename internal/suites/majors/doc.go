// Package majors only holds tests: suites that need newer majors of a framework than the main
// module requires, and what happens if an adapter meets the wrong major.
package majors
