package core

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Blocks yields the clients that the limiter's limits block, in no order, one
// for each limit and key. What begins or ends meanwhile may be among them or
// not. It is for an admin's page or a command, and not for requests: a store in
// Redis is searched through, some hundred keys at a time, without holding it up.
// A store in memory lists 16,384 at most: see memstore.Store.Blocks.
//
// An error is yielded where a part of the store, such as a node of a Cluster,
// can't be read; the iteration goes on with the others. ctx ends it. What is
// blocked in this process during an outage of the store is not listed.
func (l *Limiter) Blocks(ctx context.Context) iter.Seq2[Blocked, error] {
	var rules []*Rule
	for i := range l.limits {
		if l.limits[i].rule.Penalized() {
			rules = append(rules, &l.limits[i].rule)
		}
	}
	if len(rules) == 0 {
		return func(func(Blocked, error) bool) {}
	}
	return l.store.Blocks(ctx, rules)
}

// Block blocks key under the limit of that name from now on for d, in the place
// of a block that holds: shorter or longer. The limit must have a
// [Limit.Penalty], whose Max does not bound d: at most 10 years. Strikes start at
// 0, and the next block is not longer for it. key is as for [Limiter.AllowKey], or
// one that is listed.
func (l *Limiter) Block(ctx context.Context, limit, key string, d time.Duration) error {
	if err := store.ValidBlockTime(d.Truncate(time.Microsecond)); err != nil {
		return fmt.Errorf("weblimit: limit %q: %s", limit, unprefixed(err))
	}
	for i := range l.limits {
		rule := &l.limits[i].rule
		if rule.Name != limit {
			continue
		}
		if !rule.Penalized() {
			return fmt.Errorf("weblimit: limit %q blocks nobody: it has no Penalty", limit)
		}
		ctx, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		return l.store.Block(ctx, []Check{{Key: blockKey(key), Rule: rule}}, d.Truncate(time.Microsecond))
	}
	return fmt.Errorf("weblimit: the limiter has no limit %q", limit)
}

// Unblock lifts the blocks of key under all limits of the limiter, at once and
// for all processes, and forgives it: strikes and former blocks are forgotten.
// What the key has used stays used; [Limiter.Reset] forgets that, too. A key that
// is not blocked is no error. key is as for [Limiter.AllowKey], or one that is
// listed. Blocks of other processes that decide by themselves, in an outage of the
// store, stay, and so do those of Config.Fallback.
func (l *Limiter) Unblock(ctx context.Context, key string) error {
	var checks []Check
	encoded := blockKey(key)
	for i := range l.limits {
		if l.limits[i].rule.Penalized() {
			checks = append(checks, Check{Key: encoded, Rule: &l.limits[i].rule})
		}
	}
	if len(checks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return errors.Join(l.shared.local.Unblock(ctx, checks), l.store.Unblock(ctx, checks))
}

// blockKey returns the store's key for one that an admin names or was shown. What
// [Blocked] shows of keys that are hashed would not stay as it is.
func blockKey(key string) []byte {
	hashed := keyfuncs.AppendKey(nil, "") // "key#" and a hash
	if len(key) == len(hashed) && strings.HasPrefix(key, string(hashed[:4])) {
		return []byte(key)
	}
	return keyfuncs.AppendKey(nil, key)
}
