package core

import (
	"fmt"
	"slices"

	"github.com/weblimit/weblimit/keyfuncs"
)

// By says whose bucket a request is charged to: one for each value that the key
// function finds. Several are joined: a bucket for each combination. Every limit
// needs it; one for all is By(keyfuncs.Everyone()).
//
// A request that lacks the key, such as one without an API key, shares one
// bucket with all others that lack it, unless [Limit.OnMissingKey] says otherwise.
// A request that has it several times, such as an API key on two lines, is denied
// with status 400: the application might read another one than the limit.
func (l Limit) By(keys ...keyfuncs.Func) Limit {
	l.keys = slices.Clone(keys)
	return l
}

// key returns the one key function that By's make together.
func (l *Limit) key() (keyfuncs.Func, error) {
	var key keyfuncs.Func
	switch len(l.keys) {
	case 0:
		return key, fmt.Errorf("weblimit: limit %q: say who is limited with By, such as By(keyfuncs.ClientIP())", l.name)
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

// MissingKey is what a limit does with a request that lacks its key. A request whose
// key is ambiguous, such as one with two API keys, does not lack it: that is denied
// with ReasonAmbiguousKey and status 400, whatever the limit says here.
type MissingKey uint8

const (
	// ShareBucket lets all requests that lack the key share one bucket. A
	// [Limit.Penalty] never blocks it.
	ShareBucket MissingKey = iota
	// DenyRequest denies them, with ReasonMissingKey and status 429.
	DenyRequest
	// SkipLimit leaves them to the other limits: this one does not count.
	SkipLimit
)

func (m MissingKey) valid() bool { return m <= SkipLimit }

// OnMissingKey says what happens to a request that lacks the key, such as one
// without an API key. Defaults to ShareBucket.
func (l Limit) OnMissingKey(m MissingKey) Limit {
	l.missing = m
	return l
}
