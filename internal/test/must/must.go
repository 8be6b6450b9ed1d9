// Package must ends a test that cannot go on: after an error, or after a difference that would make
// the rest meaningless. Like t.Fatal, its functions belong in the goroutine of the test. After a
// difference that package check reports, the test goes on.
//
//	must.OK(t, limiter.Close())
//	conn := must.Get(net.Dial("tcp", address))(t)
//	must.Do(conn.Write(request))(t)
//	must.Equal(t, "status", response.StatusCode, http.StatusOK)
package must

import (
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

// OK ends the test with err, unless it is nil.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get takes the results of a call. Called with the test, the function that it returns gives their
// first, or ends the test if there is an error. (Go passes the results of a call on only if there
// are no other arguments.)
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Do is Get for a call of which only the error counts.
func Do[T any](_ T, err error) func(testing.TB) {
	return func(t testing.TB) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
}

// Equal ends the test with "what: got X, want Y", unless got equals want.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	if got != want {
		t.Helper()
		t.Fatal(check.Difference(what, got, want))
	}
}
