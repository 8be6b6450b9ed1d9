package core

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/clientkeys"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Blocks yields the clients that the limiter's limits block, in no order, one for each limit and
// key. Blocks that begin or end meanwhile may be missing or included. It is for an admin page or
// a command, not for requests: it scans a store in Redis, some hundred keys at a time,
// without holding up other calls. A store in memory lists at most 16,384: see
// memstore.Store.Blocks.
//
// If a part of the store can't be read, such as a node of a Cluster, an error is yielded and the
// iteration goes on with the other parts. It ends with ctx. Blocks that began in this process
// during an outage of the store are not listed.
func (l *Limiter) Blocks(ctx context.Context) iter.Seq2[store.Blocked, error] {
	l = l.now()
	rules := make([]*Rule, len(l.limits))
	for i := range l.limits {
		rules[i] = &l.limits[i].rule
	}
	return l.store.Blocks(ctx, rules)
}

// Block blocks key for d from now on, under the limit with that name, whether or not it has a
// [Limit.Penalty]: while it lasts, the limit denies every request of the key with [ReasonBlocked]. It
// replaces a block in force, which may end sooner or later. d is at most 10 years and may exceed the
// penalty's Max. Strikes start at 0 again, and this block does not make the next one longer. What the
// key has used stays used.
//
// It is an error if nobody would be blocked: if the limit is in shadow mode, or if its key functions give no key such as this one, of which the store knows nothing, either. key is
// the whole key as for [Limiter.Reset], or one that Blocks yielded: "ip:192.0.2.7", and not
// "192.0.2.7". A limit by user and route blocks a user on one route. A key that only
// [Limiter.AllowKey] is given can be blocked once it has used something.
func (l *Limiter) Block(ctx context.Context, limit, key string, d time.Duration) error {
	l = l.now()
	if err := store.ValidBlockTime(d.Truncate(time.Microsecond)); err != nil {
		return store.AtLimit(limit, err)
	}
	for i := range l.limits {
		rule := &l.limits[i].rule
		if rule.Name != limit {
			continue
		}
		if l.limits[i].shadow {
			return fmt.Errorf("weblimit: limit %q blocks nobody: it is in shadow mode", limit)
		}
		ctx, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		checks := []Check{{Key: blockKey(key), Rule: rule, Cost: 1}}
		if err := l.limits[i].counts(ctx, l.store, key, checks); err != nil {
			return err
		}
		return l.store.Block(ctx, checks, d.Truncate(time.Microsecond))
	}
	return fmt.Errorf("weblimit: the limiter has no limit %q", limit)
}

// counts returns an error if the limit's key functions can't give a key, and nothing is known of it.
func (l *limit) counts(ctx context.Context, s Store, key string, checks []Check) error {
	if clientkeys.Match(l.kind(), string(checks[0].Key)) {
		return nil
	}
	if kinds, former := clientkeys.Former(l.kind(), s.Registry().KeysBefore(l.rule.Name), string(checks[0].Key)); former {
		return fmt.Errorf("weblimit: limit %q counts by %s now, and no more by %s, so a block of %q would block nobody; a key of it looks like %q",
			l.rule.Name, l.key.Kind(), kinds, key, clientkeys.Example(l.kind()))
	}
	var results [1]Result
	if err := s.Peek(ctx, checks, results[:]); err != nil {
		return err
	}
	if results[0].Blocked || results[0].Remaining < l.rule.Burst {
		return nil // AllowKey has counted it
	}
	how := "as keyfuncs.Encode writes it"
	if l.conceal() != nil {
		how = "the hash that Func.Conceal of its key function makes under the secret"
	}
	return fmt.Errorf("weblimit: limit %q counts by %s, so a block of %q would block nobody; a key of it looks like %q, %s",
		l.rule.Name, l.key.Kind(), key, clientkeys.Example(l.kind()), how)
}

// Unblock ends the blocks of key under all limits of the limiter, for all processes, and forgets its
// strikes and former blocks. It is in force at once, except that other processes on Redis can repeat a
// denial for as long as after [Limiter.Reset]. What the key has used stays used;
// [Limiter.Reset] forgets that, too. It is no error if the key is not blocked. key is as for
// [Limiter.Reset], or one that Blocks yielded. Blocks that other processes have made by
// themselves during an outage of the store stay, and so do those in the store of
// Config.Fallback.
func (l *Limiter) Unblock(ctx context.Context, key string) error {
	l = l.now()
	encoded, checks := blockKey(key), make([]Check, len(l.limits))
	for i := range l.limits {
		checks[i] = Check{Key: encoded, Rule: &l.limits[i].rule}
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	var err error
	for part := range slices.Chunk(checks, store.MaxChecks) { // a policy can have more limits than a call takes
		err = errors.Join(err, l.shared.local.Unblock(ctx, part), l.store.Unblock(ctx, part))
	}
	return err
}

// blockKey returns the store's key for a key that an admin gives. Keys that are hashed are left as
// [Blocked] shows them: AppendKey would hash them again.
func blockKey(key string) []byte {
	hashed := keyfuncs.AppendKey(nil, "") // "key#" and a hash
	if len(key) == len(hashed) && strings.HasPrefix(key, string(hashed[:4])) {
		return []byte(key)
	}
	return keyfuncs.AppendKey(nil, key)
}
