// Package long tells tests whether this is a long run, as `make long` is: hours of random
// sequences and soaks. All other runs have the same tests in a short form.
package long

import "os"

// variable is set to 1 by `make long`. It does not begin with WEBLIMIT_, since weblimitd refuses variables of
// that kind that it does not know.
const variable = "LONG_TESTS"

// Run reports whether this is a long run. It may be called concurrently.
func Run() bool { return os.Getenv(variable) == "1" }

// Rounds returns how often a test repeats what it does: long times in a long run, else
// short times. T can be a count or a duration.
func Rounds[T any](short, long T) T {
	if Run() {
		return long
	}
	return short
}
