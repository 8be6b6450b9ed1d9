package core

import (
	"fmt"
	"slices"

	"github.com/weblimit/weblimit/keyfuncs"
)

// By sets the key: the limit has one bucket for each key. Several key functions are
// joined, which gives a bucket for each combination. Every limit needs By; a limit
// over all requests together is By(keyfuncs.Everyone()).
//
// A request without the key, such as one without an API key, shares one bucket with
// all others without it, unless [Limit.OnMissingKey] says otherwise. A request with an
// ambiguous key, such as two different API keys, is denied with status 400: the
// application might read another one than the limit.
func (l Limit) By(keys ...keyfuncs.Func) Limit {
	l.keys = slices.Clone(keys)
	return l
}

// joinedKey returns the key functions of By joined to one.
func (l *Limit) joinedKey() (keyfuncs.Func, error) {
	var key keyfuncs.Func
	switch len(l.keys) {
	case 0:
		return key, fmt.Errorf("weblimit: limit %q: By is missing: say whose requests are counted, such as By(keyfuncs.ClientIP())", l.name)
	case 1:
		key = l.keys[0]
	default:
		key = keyfuncs.Join(l.keys...)
	}
	if err := key.Err(); err != nil {
		return key, fmt.Errorf("weblimit: limit %q: %s", l.name, unprefixed(err))
	}
	return key, nil
}

// MissingKey says what a limit does with a request without its key; see
// [Limit.OnMissingKey]. An ambiguous key, such as two different API keys, is not a
// missing one: the request is denied with [ReasonAmbiguousKey] and status 400, whatever
// is set here.
type MissingKey uint8

const (
	// ShareBucket charges all requests without the key to one bucket. [Limit.Penalty]
	// never blocks that bucket.
	ShareBucket MissingKey = iota
	// DenyRequest denies them with [ReasonMissingKey] and status 429.
	DenyRequest
	// SkipLimit does not apply this limit to them. Other limits still do.
	SkipLimit
)

func (m MissingKey) valid() bool { return m <= SkipLimit }

// OnMissingKey says what happens to a request without the key, such as one without an
// API key. Defaults to ShareBucket.
func (l Limit) OnMissingKey(m MissingKey) Limit {
	l.missing = m
	return l
}
