// Package check compares what a test got with what it wants, in one line. After a difference the test
// goes on; package must ends it.
//
//	check.OK(t, limiter.Close())
//	check.Equal(t, "status", response.StatusCode, http.StatusOK)
package check

import (
	"fmt"
	"reflect"
	"testing"
)

// OK reports err, unless it is nil.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Error(err)
	}
}

// Equal reports "what: got X, want Y", unless got equals want.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	if got != want {
		t.Helper() // only now: it is slow, and tests compare in loops
		t.Error(Difference(what, got, want))
	}
}

// Difference returns what Equal reports: strings in quotes, structs with the names of their fields.
func Difference(what string, got, want any) string {
	return fmt.Sprintf("%s: got %s, want %s", what, show(got), show(want))
}

func show(v any) string {
	if reflect.ValueOf(v).Kind() == reflect.String {
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprintf("%+v", v)
}
