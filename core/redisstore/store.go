package redisstore

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
)

// DefaultPrefix is what the store's keys begin with unless told otherwise.
const DefaultPrefix = "weblimit:"

// Store keeps the state of limits in Redis. It is safe for concurrent use.
type Store struct {
	core.Registry

	client redis.UniversalClient
	prefix string
	single bool         // all keys are on one node: one call decides any of them
	clock  func() int64 // microseconds since the epoch; nil for Redis's own
}

var _ core.Store = (*Store)(nil)

// Option changes how a [Store] is set up.
type Option func(*Store)

// Prefix sets what the store's keys begin with. Stores of different prefixes
// share nothing. A hash tag in it, such as "{limits}:", puts all keys of a
// Cluster into one slot: then any limits are decided atomically, by one node.
// Defaults to DefaultPrefix.
func Prefix(prefix string) Option {
	return func(s *Store) { s.prefix = prefix }
}

// New returns a store on a Redis client: a single server, Sentinel, Cluster or
// Ring. The store does not connect before its first check, and never closes the
// client. It panics if client is nil.
//
// Of a single-server or Sentinel client the store uses the connections but not
// the retries: a check that timed out may have been charged, and is not sent
// again.
func New(client redis.UniversalClient, options ...Option) *Store {
	if client == nil {
		panic("weblimit: redisstore.New: the client is nil")
	}
	s := &Store{client: client, prefix: DefaultPrefix}
	if c, ok := client.(*redis.Client); ok {
		s.single = true
		s.client = withoutRetries(c)
	}
	for _, option := range options {
		option(s)
	}
	return s
}

// withoutRetries returns a client on the same connections that sends a command
// once and keeps to the deadline of its context.
func withoutRetries(c *redis.Client) *redis.Client {
	clone := c.WithTimeout(c.Options().ReadTimeout) // with options of its own
	clone.Options().WriteTimeout = c.Options().WriteTimeout
	clone.Options().MaxRetries = 0
	clone.Options().ContextTimeoutEnabled = true
	return clone
}

// Take implements [core.Store]. See the package's documentation for what a
// Cluster promises when the checks' keys are in different slots.
func (s *Store) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	if err := core.ValidChecks(checks, results); err != nil {
		return err
	}
	clear(results) // what a slot does not answer must not look charged
	calls := s.split(take, checks, nil)
	err := s.ask(ctx, calls, checks, results)
	if len(calls) < 2 || err == nil && !denied(checks, results) {
		return err
	}
	// What one slot charged, another denied: give it back. The client's deadline
	// must not stop that.
	back := s.split(refund, checks, results)
	return errors.Join(err, s.ask(context.WithoutCancel(ctx), back, checks, results))
}

// ask makes the calls and fills in the results of those that were answered.
func (s *Store) ask(ctx context.Context, calls []*call, checks []core.Check, results []core.Result) error {
	err := s.run(ctx, calls)
	for _, c := range calls {
		if c.err == nil {
			err = errors.Join(err, c.answer(checks, results))
		}
	}
	return err
}

// denied reports whether an enforced check did not fit.
func denied(checks []core.Check, results []core.Result) bool {
	for i := range results {
		if !results[i].Allowed && !checks[i].Shadow {
			return true
		}
	}
	return false
}

// Peek implements [core.Store].
func (s *Store) Peek(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.each(ctx, peek, checks, results)
}

// Refund implements [core.Store].
func (s *Store) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.each(ctx, refund, checks, results)
}

// Reset implements [core.Store].
func (s *Store) Reset(ctx context.Context, checks []core.Check) error {
	for i := range checks {
		if checks[i].Rule == nil {
			return errors.New("weblimit: check without a rule")
		}
	}
	return s.run(ctx, s.split(reset, checks, nil))
}

// each runs an operation in which no check depends on another.
func (s *Store) each(ctx context.Context, op operation, checks []core.Check, results []core.Result) error {
	if err := core.ValidChecks(checks, results); err != nil {
		return err
	}
	return s.ask(ctx, s.split(op, checks, results), checks, results)
}

// split makes the script calls for checks: one, or on many nodes one per hash
// slot. A refund leaves out what was not charged.
func (s *Store) split(op operation, checks []core.Check, results []core.Result) []*call {
	var calls []*call
	for i := range checks {
		if op == refund && !results[i].Charged {
			continue
		}
		key := s.key(checks[i].Key)
		slot := 0
		if !s.single {
			slot = slotOf(key)
		}
		at := slices.IndexFunc(calls, func(c *call) bool { return c.slot == slot })
		if at < 0 {
			at = len(calls)
			calls = append(calls, &call{op: op, slot: slot, clock: s.clock})
		}
		charged := int64(0)
		if op == refund {
			charged = results[i].At
		}
		calls[at].add(i, key, &checks[i], charged)
	}
	return calls
}

// key returns the Redis key that holds all limits of a client key. The braces
// make the client key its hash tag; it holds none itself.
func (s *Store) key(key []byte) string {
	b := make([]byte, 0, len(s.prefix)+len(key)+2)
	b = append(b, s.prefix...)
	b = append(b, '{')
	b = append(b, key...)
	return string(append(b, '}'))
}
