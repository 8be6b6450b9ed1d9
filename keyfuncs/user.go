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
func User(contextKey any) Func { return stored("User", kindUser, contextKey) }

// Tenant limits each tenant, such as a customer's organisation, that all of its
// users share. contextKey and what is stored there are as in [User]; the key is
// "tenant:acme".
//
// # Security
//
// Safe when the limit runs after what has checked that the user belongs to the
// tenant. A tenant that is read from a host name, path or header without that is
// the client's choice: it could use up the bucket of another. One user can use
// up the bucket of the tenant; give each a smaller limit beside it.
func Tenant(contextKey any) Func { return stored("Tenant", kindTenant, contextKey) }

// stored limits by the ID under contextKey.
func stored(constructor, kind string, contextKey any) Func {
	if contextKey == nil {
		return Func{err: errors.New("weblimit: keyfuncs." + constructor + ": the context key is nil")}
	}
	// Looking up such a key in a context may panic.
	if !reflect.ValueOf(contextKey).Comparable() {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.%s: a %T can't be a context key", constructor, contextKey)}
	}
	p := newPart(kind)
	return Func{kind: kind, read: func(dst []byte, r Request) ([]byte, Presence) {
		return p.appendID(dst, r.Value(contextKey))
	}}
}

// appendID appends an ID of any type that User takes.
func (p part) appendID(dst []byte, id any) ([]byte, Presence) {
	switch id := id.(type) {
	case nil:
		return dst, Missing
	case string:
		return p.append(dst, id)
	case fmt.Stringer:
		if v := reflect.ValueOf(id); v.Kind() == reflect.Pointer && v.IsNil() {
			return dst, Missing
		}
		return p.append(dst, id.String())
	}
	v := reflect.ValueOf(id)
	switch {
	case v.Kind() == reflect.String:
		return p.append(dst, v.String())
	case v.CanInt():
		return strconv.AppendInt(append(append(dst, p.kind...), ':'), v.Int(), 10), Present
	case v.CanUint():
		return strconv.AppendUint(append(append(dst, p.kind...), ':'), v.Uint(), 10), Present
	}
	return dst, Missing
}
