package core

import (
	"errors"
	"slices"

	"github.com/weblimit/weblimit/core/store"
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
	l.settings.set(setBy)
	l.keys = slices.Clone(keys)
	return l
}

// joinedKey returns the key functions of By joined to one.
func (l *Limit) joinedKey() (keyfuncs.Func, error) {
	var key keyfuncs.Func
	switch len(l.keys) {
	case 0:
		return key, store.AtLimit(l.name, errors.New("By is missing: say whose requests are counted, such as By(keyfuncs.ClientIP()); AllowKey takes the key instead and ignores it, so any will do there; Guard is for handlers that give the key, and takes none"))
	case 1:
		key = l.keys[0]
	default:
		key = keyfuncs.Join(l.keys...)
	}
	if err := key.Err(); err != nil {
		return key, store.AtLimit(l.name, err)
	}
	return key, nil
}
