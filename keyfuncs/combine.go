package keyfuncs

import (
	"errors"
	"slices"
	"strings"
)

// Join limits each combination of keys: Join(User(id), Route()) gives each user a
// bucket per route, "user:alice|route:/orders". The key is [Missing] if one of the keys
// is, and [Ambiguous] if one of them is ambiguous.
//
// The same parts in the same order are the same bucket, however they are nested:
// Join(Join(a, b), c) is Join(a, b, c), as long as no key had to be shortened. A
// combination of more than 256 bytes becomes "join#" and its hash.
//
// Err reports a Join of no keys, and the first error of its keys.
//
// # Security
//
// A client that can choose one of the keys has a fresh bucket for each value of it,
// however safe the others are.
func Join(keys ...Func) Func {
	f := combined("Join", kindJoin, keys)
	if f.err != nil {
		return f
	}
	keys = slices.Clone(keys)
	f.lack = lacksAll(keys, " and ")
	f.lack.oneOf = keys
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
				all = Missing // go on: a later one may be Ambiguous
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

// First limits by the first key that the request has: First(User(id), ClientIP()) is
// the user, or the IP of clients that are not signed in. The key is [Missing] if the
// request has none of them. An [Ambiguous] key ends the search: otherwise a client
// could send a header twice to get to the next key, which is a fresh bucket.
//
// The buckets are those of the keys themselves: user "alice" is "user:alice", as with
// [User].
//
// Err reports a First of no keys, and the first error of its keys.
//
// # Security
//
// A client that can leave out or make up a key chooses its bucket. So put keys first
// that are verified before the limit, such as User, and last one that no client can
// leave out, such as ClientIP.
//
// Not safe: First(APIKey(), ClientIP()) in front of authentication gives a fresh bucket
// for every made-up key. Add a limit by ClientIP alone.
func First(keys ...Func) Func {
	f := combined("First", kindFirst, keys)
	if f.err != nil {
		return f
	}
	keys = slices.Clone(keys)
	f.lack = lacksAll(keys, " or ")
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

// combined returns a Func without read, or with the first error of its keys.
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
		f.derived = f.derived || key.derived
		f.params = append(f.params, key.params...)
		f.needs = append(f.needs, key.needs...)
	}
	f.secrets = secretsOf(keys)
	f.kind = kind + "(" + strings.Join(kinds, ",") + ")"
	return f
}
