package keyfuncs

import "fmt"

// Custom limits by whatever f finds, such as the plan in a token that was
// checked. The key is kind, ":" and what f returns, "plan:free", or hashed where
// that is long or odd or kind names a secret (see the package comment); so f
// needs neither to escape nor to shorten it. The string may alias the request's
// memory.
//
// A request has no key when f reports false or returns "". f runs on every
// request, maybe on many at once, and must not block; that it does not panic is
// yours to see to.
//
// kind is 1 to 32 of a-z, 0-9, "." and "-", and begins with a letter. Two
// Customs of one kind share buckets where they return the same, which is right
// only when it means the same: a Custom of kind "user" shares those of [User].
// Kinds whose values this package shapes itself are taken: all, first, invalid,
// ip, join, key, method and route.
//
// Err reports any other kind, and a nil f.
//
// # Security
//
// What f reads decides. A value that the client chooses freely gives it endless
// fresh buckets, and those of others: combine with a limit by [ClientIP]. Where f
// reads a header, a second line of it is f's to refuse; prefer [Header].
func Custom(kind string, f func(Request) (key string, ok bool)) Func {
	if problem := checkCustomKind(kind); problem != "" {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.Custom: %s", problem)}
	}
	if f == nil {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.Custom: kind %q has no function", kind)}
	}
	p := newPart(kind)
	return Func{kind: kind, read: func(dst []byte, r Request) ([]byte, Presence) {
		value, ok := f(r)
		if !ok {
			return dst, Missing
		}
		return p.append(dst, value)
	}}
}

// checkCustomKind says what is wrong with an app's own kind, "" when nothing is.
func checkCustomKind(kind string) string {
	switch {
	case !isCustomKind(kind):
		return fmt.Sprintf("%.40q is not a kind, want [a-z][a-z0-9.-]{0,31}", kind)
	case !isKind(kind) || kind == kindIP || kind == kindMethod || kind == kindRoute:
		return fmt.Sprintf("kind %q is taken", kind)
	}
	return ""
}
