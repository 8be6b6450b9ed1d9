package keyfuncs

import "fmt"

// Custom limits by whatever f returns, such as the plan in a verified token. The key is
// kind, ":" and what f returns, such as "plan:free". It is hashed if that is long or
// odd, or if kind names a secret (see the package comment); so f need neither escape
// nor shorten it. The string may alias the request's memory.
//
// The key is [Missing] if f returns "". f is called for each request,
// concurrently, must be fast and must not panic.
//
// kind is 1 to 32 of a-z, 0-9, "." and "-", and begins with a letter. Two Customs of
// one kind share buckets where they return the same, which is right only if it means
// the same. A Custom of kind "user" shares the buckets of [User]. The kinds all, first,
// invalid, ip, join, key, method and route are taken: this package defines their
// values.
//
// Err reports an invalid kind, and a nil f.
//
// # Security
//
// As safe as what f reads. A value that the client chooses freely gives it endless
// fresh buckets, and those of others: combine it with a limit by [ClientIP]. If f reads
// a header, it must refuse a second line of it; prefer [Header], which does.
func Custom(kind string, f func(Request) string) Func {
	if problem := checkCustomKind(kind); problem != "" {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.Custom: %s", problem)}
	}
	if f == nil {
		return Func{err: fmt.Errorf("weblimit: keyfuncs.Custom: kind %q has no function", kind)}
	}
	p := newEncoder(kind)
	return Func{kind: kind, derived: true, read: func(dst []byte, r Request) ([]byte, Presence) {
		return p.append(dst, f(r))
	}}
}

// checkCustomKind returns what is wrong with the kind of a Custom or Lookup, or "".
func checkCustomKind(kind string) string {
	switch {
	case !isCustomKind(kind):
		return fmt.Sprintf("%.40q is not a kind, want [a-z][a-z0-9.-]{0,31}", kind)
	case !isKind(kind) || kind == kindIP || kind == kindMethod || kind == kindRoute:
		return fmt.Sprintf("kind %q is taken", kind)
	}
	return ""
}
