// Package check compares what a test got with what it wants, in one line. After a difference the test
// goes on; package must ends it.
//
//	check.OK(t, limiter.Close())
//	check.Equal(t, "status", response.StatusCode, http.StatusOK)
//	check.Slices(t, "keys", keys, []string{"a", "b"})
//	check.Contains(t, "the log", log.String(), "outage began")
//	check.Is(t, "Reset", err, context.Canceled)
//	check.Fails(t, "no limits", err, "Config.Limits is empty")
package check

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
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

// All reports values that are not those wanted, in their order. They are compared as they are printed,
// so that numbers of any type are equal:
//
//	check.All(t, "decided", []any{d.Allowed, d.Reason, d.Delay()}, true, core.ReasonDelayed, time.Second)
func All(t testing.TB, what string, got []any, want ...any) {
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w || len(got) != len(want) {
		t.Helper()
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// Slices reports "what: got X, want Y", unless got has the elements of want, in their order.
func Slices[E comparable](t testing.TB, what string, got, want []E) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Error(Difference(what, got, want))
	}
}

// Contains reports a text that lacks a part.
func Contains(t testing.TB, what, text, part string) {
	if !strings.Contains(text, part) {
		t.Helper()
		t.Errorf("%s: %q is missing in\n%s", what, part, text)
	}
}

// Is reports err, unless it is target or wraps it.
func Is(t testing.TB, what string, err, target error) {
	if !errors.Is(err, target) {
		t.Helper()
		t.Errorf("%s: got error %v, want %v", what, err, target)
	}
}

// ErrorOf returns the error of a call, for Is and Fails.
func ErrorOf[T any](_ T, err error) error { return err }

// Fails reports that there is no error, or that its text lacks a part.
func Fails(t testing.TB, what string, err error, part string) {
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Helper()
		t.Errorf("%s: got error %v, want one with %q", what, err, part)
	}
}

// Difference returns what Equal reports: strings in quotes, structs with the names of their fields.
func Difference(what string, got, want any) string {
	return fmt.Sprintf("%s: got %s, want %s", what, show(got), show(want))
}

func show(v any) string {
	if t := reflect.TypeOf(v); t != nil && (t.Kind() == reflect.String || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String) {
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprintf("%+v", v)
}
