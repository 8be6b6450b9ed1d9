package keyfuncs

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// User limits each user that authentication has found. contextKey is the key
// under which your middleware stored the user's ID: in the framework's own
// locals (gin's c.Set, echo's c.Set, fiber's c.Locals) or in the context. The
// key is "user:alice".
//
// The ID may be a string, an integer, a type made of one of them, or have a
// String method, as UUIDs do; a String method comes first. String must give
// the same text for the same user always, and another for each other user. The
// number 42 and the text "42" are one user.
//
// A request has no key when nothing is stored, or "", a nil pointer or a value
// of any other type.
//
// Err reports a contextKey that is nil or can't be compared.
//
// # Security
//
// Safe when the limit runs after authentication. Before it nothing is stored
// and no request has a key; use [First] to limit those by IP.
func User(contextKey any) Func {
	if contextKey == nil {
		return Func{err: errors.New("weblimit: keyfuncs.User: the context key is nil")}
	}
	// Looking up such a key in a context may panic.
	if !reflect.ValueOf(contextKey).Comparable() {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.User: a %T can't be a context key", contextKey)}
	}
	return Func{kind: kindUser, read: func(dst []byte, r Request) ([]byte, bool) {
		return appendUser(dst, r.Value(contextKey))
	}}
}

func appendUser(dst []byte, id any) ([]byte, bool) {
	p := part{kind: kindUser}
	switch id := id.(type) {
	case nil:
		return dst, false
	case string:
		return p.append(dst, id)
	case fmt.Stringer:
		if v := reflect.ValueOf(id); v.Kind() == reflect.Pointer && v.IsNil() {
			return dst, false
		}
		return p.append(dst, id.String())
	}
	v := reflect.ValueOf(id)
	switch {
	case v.Kind() == reflect.String:
		return p.append(dst, v.String())
	case v.CanInt():
		return strconv.AppendInt(append(dst, kindUser+":"...), v.Int(), 10), true
	case v.CanUint():
		return strconv.AppendUint(append(dst, kindUser+":"...), v.Uint(), 10), true
	}
	return dst, false
}
