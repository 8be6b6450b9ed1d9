package redisstore

// Blocks of repeat offenders, and by hand: set, lifted, and listed by a scan of all keys.

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// scanCount is how many keys Redis looks at before it serves others, and how many
// values are read together.
const scanCount = 128

// Block implements [store.Store]. The block is in force at once, for all processes, except that others
// may spend what they took ahead; see [Prefetch] for how long. One that ends earlier than the one
// before ends as Unblock says.
func (s *Store) Block(ctx context.Context, checks []store.Check, d time.Duration) error {
	defer s.endLeases(checks) // after an error, too: it may be blocked all the same
	return s.changeBlocks(ctx, charge, checks, d)
}

// Unblock implements [store.Store]. The block is lifted at once. Other processes that repeat it
// hear of that; see [DenialCache] for how late that can be.
func (s *Store) Unblock(ctx context.Context, checks []store.Check) error {
	return s.changeBlocks(ctx, reset, checks, 0)
}

// changeBlocks sets (charge) or lifts (reset) the blocks of the checks' keys.
func (s *Store) changeBlocks(ctx context.Context, op operation, checks []store.Check, d time.Duration) error {
	if err := counting.ValidKeys(checks); err != nil {
		return err
	}
	if op == charge {
		if err := store.ValidBlockTime(d); err != nil {
			return err
		}
	}
	defer s.forgetBlocked(checks)
	var errs []error
	for part := range slices.Chunk(checks, store.MaxChecks/2) {
		errs = append(errs, s.changePart(ctx, op, part, d))
	}
	return errors.Join(errs...)
}

// forgetBlocked makes cached denials of the checks' keys out of date, whatever their algorithm: each of
// them can be due to a block.
func (s *Store) forgetBlocked(checks []store.Check) {
	if s.denials == nil {
		return
	}
	for i := range checks {
		s.denials.epochOf(checks[i].Key).Add(1)
	}
}

// changePart sets or lifts blocks: those of penalties, and those by hand of limits without one. A limit
// that has got a penalty since can have both.
func (s *Store) changePart(ctx context.Context, op operation, checks []store.Check, d time.Duration) error {
	var js []*job
	for i := range checks {
		var j *job
		js, j = s.jobFor(js, op, anySlot, &checks[i])
		if checks[i].Rule.Penalized() {
			j.AddPenalty(i, &checks[i], d)
			j.AddManual(i, &checks[i], 0)
		} else {
			j.AddManual(i, &checks[i], d)
		}
	}
	defer releaseAll(js)
	return s.run(ctx, s.sealAll(js))
}

// Blocks implements [store.Store]. It scans all keys of the store's databases, on each
// server some at a time, and reads their values: on every master of a Cluster, on every
// shard of a Ring that is up, and through a client of another kind wherever its SCAN
// leads. It needs permission for SCAN, GET and TIME, and uses the client's own
// time-outs and retries. A block is yielded once, even if Redis names its key twice.
func (s *Store) Blocks(ctx context.Context, rules []*store.Rule) iter.Seq2[store.Blocked, error] {
	return func(yield func(store.Blocked, error) bool) {
		l := lister{prefix: s.prefix, names: make(map[uint64]string), seen: make(map[uint64]struct{}), seed: maphash.MakeSeed(), yield: yield, now: s.now}
		for _, rule := range rules {
			l.names[counting.PenaltyID(rule)], l.names[rule.ID()] = rule.Name, rule.Name
		}
		servers, err := s.servers(ctx)
		for _, server := range servers {
			if !l.server(ctx, server) {
				return
			}
		}
		if err != nil {
			yield(store.Blocked{}, err)
		}
	}
}

// servers returns a client for each server that holds keys, and an error if it can't
// return all of them.
func (s *Store) servers(ctx context.Context) (found []redis.Cmdable, err error) {
	var mu sync.Mutex
	add := func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, c)
		return nil
	}
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		if err = c.ForEachMaster(ctx, add); err != nil {
			err = &store.Error{Class: classOf(err), Err: keyless(err)}
		}
	case *redis.Ring:
		err = c.ForEachShard(ctx, add) // those that are up
		if down := len(c.Options().Addrs) - len(found); err == nil && down > 0 {
			err = &store.Error{Class: store.ClassConnection, Err: fmt.Errorf("%d of the Ring's shards are down", down)}
		}
	default:
		found = append(found, c)
	}
	return found, err
}

// lister yields blocks, on the goroutine that ranges over them.
type lister struct {
	prefix string
	names  map[uint64]string   // of limits, by their ids and those of their penalties
	seen   map[uint64]struct{} // hashes of what was yielded
	seed   maphash.Seed
	yield  func(store.Blocked, error) bool
	now    func() int64 // 0 for the server's own time
}

// server yields the blocks on a server, and reports whether to go on.
func (l *lister) server(ctx context.Context, server redis.Cmdable) bool {
	for cursor := uint64(0); ; {
		keys, next, err := server.Scan(ctx, cursor, script.Pattern(l.prefix), scanCount).Result()
		if err == nil {
			var more bool
			if more, err = l.read(ctx, server, keys); !more {
				return false
			}
		}
		if ctx.Err() != nil {
			l.yield(store.Blocked{}, ctx.Err())
			return false
		}
		if err != nil {
			return l.yield(store.Blocked{}, &store.Error{Class: classOf(err), Node: nameOf(server), Err: keyless(err)})
		}
		if cursor = next; cursor == 0 {
			return true
		}
	}
}

// nameOf returns a server's address, if it is known.
func nameOf(server redis.Cmdable) string {
	if c, ok := server.(*redis.Client); ok {
		return c.Options().Addr
	}
	return ""
}

// read yields the blocks in the values of keys, and reports whether to go on.
func (l *lister) read(ctx context.Context, server redis.Cmdable, keys []string) (more bool, err error) {
	if len(keys) == 0 {
		return true, nil
	}
	// One round trip for the values and the time by which blocks are in force.
	pipe := server.Pipeline()
	clock := pipe.Time(ctx)
	values := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		values[i] = pipe.Get(ctx, key) // MGET is for keys of one slot
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	at, err := clock.Result()
	if err != nil {
		return true, err
	}
	now := l.now()
	if now == 0 {
		now = at.UnixMicro()
	}
	for i, key := range keys {
		value, failed := values[i].Result()
		if failed != nil {
			// The key is gone, has moved, or is not the store's: there is no block here.
			if !errors.Is(failed, redis.Nil) && !isAboutKey(classOf(failed)) {
				err = failed
			}
			continue
		}
		tag := script.TagOf(l.prefix, key)
		for _, b := range script.BlocksIn(value, now) {
			name, known := l.names[b.Limit]
			if !known || l.isRepeated(b.Limit, tag) {
				continue
			}
			if !l.yield(store.Blocked{Limit: name, Key: tag, Until: time.UnixMicro(b.Until), Level: b.Level}, nil) {
				return false, nil
			}
		}
	}
	return true, err
}

// isRepeated reports whether the block was yielded before. A scan can name a key
// twice, and so can two servers while a slot moves.
func (l *lister) isRepeated(id uint64, tag string) bool {
	h := maphash.Comparable(l.seed, struct {
		id  uint64
		tag string
	}{id, tag})
	_, repeated := l.seen[h]
	l.seen[h] = struct{}{}
	return repeated
}
