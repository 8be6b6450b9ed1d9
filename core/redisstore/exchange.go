package redisstore

// The exchange of snapshots between instances, for metrics/top: one Redis key for each
// instance and one with the list of instances, in one hash slot. Nothing here is called by a
// request.

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
)

// Exchange lets instances see each other's snapshots of who uses their limits most. It is for
// Config.Exchange of package metrics/top.
//
// Snapshots are in Redis under the store's prefix, each for some seconds, and need no
// permission that the store does not need. The exchange asks the same nodes as the store. It
// asks none whose breaker is open, and its own failures open none. It takes one more
// connection to one server.
type Exchange struct{ store *Store }

// Exchange returns the exchange of all instances that have a store with the same prefix on the
// same Redis.
func (s *Store) Exchange() *Exchange { return &Exchange{s} }

const (
	// exchangeTag is the hash tag of the exchange's keys. None of them is a key of a client,
	// which ends in the brace, nor that of a mark, which has 22 characters behind it.
	exchangeTag = "#exchange"

	// maxSnapshot bounds what one instance stores.
	maxSnapshot = 256 << 10

	// maxInstances bounds the list.
	maxInstances = 1000

	// maxList bounds the bytes of the list: a line has at most 64 of the name, and 15 more.
	maxList = 80 * maxInstances

	// maxCollected bounds what one Collect reads in all. It is what 1,000 instances publish at most.
	maxCollected = maxInstances * (64 << 10)

	// maxLifetime bounds how long a snapshot is visible.
	maxLifetime = time.Hour

	// collectAtOnce is how many snapshots one command reads, so that it does not hold up checks.
	collectAtOnce = 8

	// agreementTime is how long an agreement is kept after the last instance has asked for it.
	agreementTime = 24 * time.Hour
)

var (
	//go:embed lua/publish.lua
	publishSource string
	publishScript = exchangeScript{publishSource, redis.NewScript(publishSource).Hash()}

	//go:embed lua/agree.lua
	agreeSource string
	agreeScript = exchangeScript{agreeSource, redis.NewScript(agreeSource).Hash()}

	//go:embed lua/collect.lua
	collectSource string
	collectScript = exchangeScript{collectSource, redis.NewScript(collectSource).Hash()}
)

type exchangeScript struct{ source, hash string }

// key returns a Redis key of the exchange.
func (e *Exchange) key(name string) string { return e.store.prefix + "{" + exchangeTag + "}:" + name }

// ofInstance returns the Redis key of an instance's snapshot.
func (e *Exchange) ofInstance(instance string) string { return e.key("of:" + instance) }

// Publish makes a snapshot visible to all instances for ttl, in place of the former one of the
// same instance, whose name must be 1 to 64 bytes without white space. It returns an error for
// snapshots above 256 KB, and if there are 1,000 other instances.
func (e *Exchange) Publish(ctx context.Context, instance string, snapshot []byte, ttl time.Duration) error {
	switch {
	case instance == "" || len(instance) > 64 || strings.ContainsAny(instance, " \t\n\v\f\r{}"):
		return fmt.Errorf("weblimit: the name of an instance must be 1 to 64 bytes without white space and braces, got %q", instance)
	case len(snapshot) > maxSnapshot:
		return fmt.Errorf("weblimit: a snapshot must have at most %d bytes, got %d", maxSnapshot, len(snapshot))
	case ttl < time.Millisecond || ttl > maxLifetime:
		return fmt.Errorf("weblimit: a snapshot must be visible for 1ms to 1h, got %v", ttl)
	}
	reply, err := e.script(ctx, publishScript, []any{e.key("instances"), e.ofInstance(instance)}, instance, snapshot, ttl.Milliseconds(), maxInstances, maxList, maxLifetime.Milliseconds())
	if err == nil && reply != int64(1) {
		err = fmt.Errorf("weblimit: %d instances publish snapshots already", maxInstances)
	}
	return err
}

// Collect returns the snapshots of all instances that have not expired, 64 MB together at most. Beside an error it
// returns what it could read.
func (e *Exchange) Collect(ctx context.Context) (snapshots [][]byte, err error) {
	list, err := e.read(ctx, maxList, e.key("instances"))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	var keys []any
	for line := range strings.Lines(list[0]) {
		if instance, _, ok := strings.Cut(line, " "); ok && len(instance) <= 64 && len(keys) < maxInstances {
			keys = append(keys, e.ofInstance(instance))
		}
	}
	for left := maxCollected; len(keys) > 0; {
		n := min(collectAtOnce, len(keys))
		some, err := e.read(ctx, maxSnapshot, keys[:n]...)
		if err != nil {
			return snapshots, err
		}
		keys = keys[n:]
		for _, snapshot := range some {
			if left -= len(snapshot); left < 0 {
				return snapshots, fmt.Errorf("weblimit: the snapshots of all instances have more than %d bytes", maxCollected)
			}
			snapshots = append(snapshots, []byte(snapshot))
		}
	}
	return snapshots, nil
}

// read returns the values of keys that have at most so many bytes.
func (e *Exchange) read(ctx context.Context, most int, keys ...any) (values []string, err error) {
	reply, err := e.script(ctx, collectScript, keys, most)
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("weblimit: Redis returned a %T for what instances have published", reply)
	}
	for _, value := range list {
		if text, ok := value.(string); ok {
			values = append(values, text)
		}
	}
	return values, nil
}

// Agree returns the value that the first instance has proposed. It is kept for a day after the
// last call.
func (e *Exchange) Agree(ctx context.Context, proposal []byte) ([]byte, error) {
	if len(proposal) > 64 {
		return nil, fmt.Errorf("weblimit: a proposal must have at most 64 bytes, got %d", len(proposal))
	}
	reply, err := e.script(ctx, agreeScript, []any{e.key("agreed")}, proposal, agreementTime.Milliseconds())
	if err != nil {
		return nil, err
	}
	value, ok := reply.(string)
	if !ok {
		return nil, fmt.Errorf("weblimit: Redis returned a %T for what instances agreed on", reply)
	}
	return []byte(value), nil
}

// script calls a script, by its source if the server does not know it.
func (e *Exchange) script(ctx context.Context, s exchangeScript, keys []any, args ...any) (any, error) {
	call := func(command, text string) (redis.Cmder, error) {
		all := slices.Concat([]any{command, text, len(keys)}, keys, args)
		return e.do(ctx, func(ctx context.Context) redis.Cmder { return redis.NewCmd(ctx, all...) })
	}
	cmd, err := call("evalsha", s.hash)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd, err = call("eval", s.source)
	}
	if err != nil {
		return nil, err
	}
	return cmd.(*redis.Cmd).Val(), nil
}

// do sends a command to the node that has the exchange's keys, and follows it to another.
func (e *Exchange) do(ctx context.Context, newCmd func(context.Context) redis.Cmder) (redis.Cmder, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		within, cancel := context.WithTimeout(ctx, e.store.patience.exchange)
		defer cancel()
		ctx = within
	}
	// A job knows the way.
	j := newJob(peek, e.store.route.slot(e.store.prefix, []byte(exchangeTag)))
	defer j.release()
	j.add(0, &store.Check{Key: []byte(exchangeTag), Rule: &probeRule}, 0)
	j.seal(e.store.prefix)
	n, err := e.store.route.node(ctx, j)
	for hops := 0; err == nil && hops < maxHops; hops++ {
		if n.breaker.IsOpen() {
			return nil, n.refuse(j)
		}
		cmd := newCmd(ctx)
		failed := n.client.Process(ctx, cmd)
		if failed != nil && classOf(failed) == store.ClassClosed {
			if other := e.store.inPlaceOf(ctx, n, j); other != nil {
				n = other
				continue
			}
		}
		to, moved := redirectionOf(failed)
		if !moved || to.ask {
			if failed != nil && !errors.Is(failed, redis.Nil) && !redis.HasErrorPrefix(failed, "NOSCRIPT") {
				failed = n.explain(failed)
			}
			return cmd, failed
		}
		n, err = e.store.route.follow(ctx, n, to)
	}
	if err == nil {
		err = &store.Error{Class: ClassMoved}
	}
	return nil, err
}
