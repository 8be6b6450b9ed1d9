package keyfuncs

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// User limits each authenticated user. contextKey is the key under which your middleware
// has stored the user's ID: in the framework's own locals (Set in gin and echo, Locals in
// fiber) or in the context. The key is "user:alice".
//
// The ID may be a string, an integer, a type based on one of these, or a type with a
// String method, such as a UUID; a String method is preferred. String must always
// return the same text for the same user, and different texts for different users. The
// number 42 and the text "42" are the same user.
//
// The key is [Missing] if nothing is stored, or "", a nil pointer, or a value of any
// other type.
//
// Err reports a contextKey that is nil or not comparable.
//
// # Security
//
// Safe if the limit runs after authentication. In front of it nothing is stored and the
// key is always missing; use [First] to limit such requests by IP.
func User(contextKey any) Func { return stored("User", kindUser, contextKey) }

// Tenant limits each tenant, such as a customer's organisation, as one bucket for all
// of its users. contextKey and the stored value are as in [User]. The key is
// "tenant:acme".
//
// # Security
//
// Safe if the limit runs after a check that the user belongs to the tenant.
//
// Not safe for a tenant that is read from a host name, path or header without such a
// check: a client could use up the bucket of another tenant. One user can use up the
// bucket of the whole tenant; give each user a smaller limit beside it.
func Tenant(contextKey any) Func { return stored("Tenant", kindTenant, contextKey) }

// stored returns a Func over the ID stored under contextKey.
func stored(constructor, kind string, contextKey any) Func {
	if contextKey == nil {
		return Func{err: errors.New("weblimit: keyfuncs." + constructor + ": the context key is nil")}
	}
	// Looking up such a key in a context may panic.
	if !reflect.ValueOf(contextKey).Comparable() {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.%s: a %T can't be a context key", constructor, contextKey)}
	}
	p := newEncoder(kind)
	return Func{kind: kind, read: func(dst []byte, r Request) ([]byte, Presence) {
		return p.appendID(dst, r.Value(contextKey))
	}}
}

// appendID appends a part with an ID of any type that User takes.
func (p encoder) appendID(dst []byte, id any) ([]byte, Presence) {
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
