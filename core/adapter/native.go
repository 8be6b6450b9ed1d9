package adapter

import (
	"reflect"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Key is [keyfuncs.Custom] for a function of a framework's own value, of type C. native
// returns the value of a request, or false if it is a request of another framework.
func Key[C any](kind string, native func(keyfuncs.Request) (C, bool), f func(C) string) keyfuncs.Func {
	var read func(keyfuncs.Request) string
	if f != nil {
		read = func(r keyfuncs.Request) string {
			c, ok := native(keyfuncs.Unwrap(r))
			if !ok {
				return ""
			}
			return f(c)
		}
	}
	return keyfuncs.Custom(kind, read).Needing(reflect.TypeFor[C]().String())
}

// Matches is [keyfuncs.Matches] for a function of a framework's own value, of type C, like Key.
func Matches[C any](native func(keyfuncs.Request) (C, bool), f func(C) bool) keyfuncs.Condition {
	var matches func(keyfuncs.Request) bool
	if f != nil {
		matches = func(r keyfuncs.Request) bool {
			c, ok := native(keyfuncs.Unwrap(r))
			return ok && f(c)
		}
	}
	return keyfuncs.Matches(matches).Needing(reflect.TypeFor[C]().String(), func(r keyfuncs.Request) bool {
		_, ok := native(keyfuncs.Unwrap(r))
		return ok
	})
}
