package keyfuncs

import (
	"errors"
	"slices"
	"strings"
)

// Join limits each combination of keys: Join(User(id), Route()) gives every
// user a bucket per route, "user:alice|route:/orders". A request that lacks one
// of them has no key. The key is [Ambiguous] when one of them is.
//
// The same parts in the same order are the same bucket, however they are
// nested: Join(Join(a, b), c) is Join(a, b, c), as long as nothing had to be
// shortened. A combination of more than 256 bytes becomes "join#" and its hash.
//
// Err reports a Join of nothing, and the first of its keys' errors.
func Join(keys ...Func) Func {
	f := combined("Join", kindJoin, keys)
	if f.err != nil {
		return f
	}
	keys = slices.Clone(keys)
	f.read = func(dst []byte, r Request) ([]byte, Presence) {
		start, all := len(dst), Present
		for i, key := range keys {
			if i > 0 {
				dst = append(dst, '|')
			}
			var p Presence
			if dst, p = key.Append(dst, r); p == Ambiguous {
				return dst, Ambiguous
			} else if p == Missing {
				all = Missing // a later one may be Ambiguous
			}
		}
		if whole := dst[start:]; all == Present && len(whole) > maxKey {
			dst = appendHashed(dst[:start], kindJoin, whole)
		}
		return dst, all
	}
	f.repeated = func(r Request) string {
		for _, key := range keys {
			if what := key.Repeated(r); what != "" {
				return what
			}
		}
		return ""
	}
	return f
}

// First limits by the first key that the request has: First(User(id),
// ClientIP()) is the user, or the IP of those who are not signed in. A request
// that has none of them has no key. An [Ambiguous] key ends the search: the next one
// would be a fresh bucket for whoever sends a header twice.
//
// The buckets are those of the keys themselves: user "alice" is "user:alice"
// here as in [User].
//
// Err reports a First of nothing, and the first of its keys' errors.
//
// # Security
//
// A client that can leave out or make up a key chooses its bucket. So put first
// what was checked before the limit, such as User, and last what no client can
// leave out, such as ClientIP. First(APIKey(), ClientIP()) before authentication
// gives a fresh bucket for every made-up key: add a limit by ClientIP alone.
func First(keys ...Func) Func {
	f := combined("First", kindFirst, keys)
	if f.err != nil {
		return f
	}
	keys = slices.Clone(keys)
	f.read = func(dst []byte, r Request) ([]byte, Presence) {
		for _, key := range keys {
			if dst, p := key.Append(dst, r); p != Missing {
				return dst, p
			}
		}
		return dst, Missing
	}
	f.repeated = func(r Request) string {
		var room [maxKey]byte
		for _, key := range keys {
			if _, p := key.Append(room[:0], r); p != Missing {
				return key.Repeated(r)
			}
		}
		return ""
	}
	return f
}

// combined is a Func without read, or the error of what it is made of.
func combined(constructor, kind string, keys []Func) Func {
	if len(keys) == 0 {
		return Func{err: errors.New("weblimit: keyfuncs." + constructor + ": no keys")}
	}
	f := Func{}
	kinds := make([]string, len(keys))
	for i, key := range keys {
		if err := key.Err(); err != nil {
			return Func{err: err}
		}
		kinds[i] = key.kind
		f.strategies = append(f.strategies, key.strategies...)
		f.readsRoute = f.readsRoute || key.readsRoute
	}
	f.kind = kind + "(" + strings.Join(kinds, ",") + ")"
	return f
}
