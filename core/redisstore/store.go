package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore/internal/lease"
)

// DefaultPrefix is what the store's keys begin with unless told otherwise.
const DefaultPrefix = "weblimit:"

// Store keeps the state of limits in Redis. It is safe for concurrent use.
type Store struct {
	core.Registry

	client redis.UniversalClient
	route  route
	prefix string
	clock  func() int64 // microseconds since the epoch; nil for Redis's own

	denials   *denials      // nil if none are kept
	leases    *lease.Leases // nil if there are none
	returning chan struct{} // holds one element per charge that is given back in the background
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
// The store uses the client's connections, but neither its retries nor its
// time-outs: a check that timed out may have been charged, and is not sent
// again, and the deadline is the limiter's. Of a Cluster it asks masters only,
// whatever the client is set to. It uses up to two connections to each server.
//
// A client of another kind, such as a wrapper around one of these, is used as it
// is, with the retries and time-outs that it has: switch its retries off, or a
// check can be charged twice. Hooks are those that the client has by now.
func New(client redis.UniversalClient, options ...Option) *Store {
	if client == nil {
		panic("weblimit: redisstore.New: the client is nil")
	}
	s := &Store{client: client, prefix: DefaultPrefix, returning: make(chan struct{}, maxReturning)}
	s.denials = newDenials(DefaultDenialAge, DefaultDenials)
	for _, option := range options {
		option(s)
	}
	s.route = s.routeFor(client)
	return s
}

const (
	// maxReturning bounds what is given back in the background.
	maxReturning = 64

	// returnTimeout is how long that may take.
	returnTimeout = time.Second

	// minReturn is how much time must be left to do so while the request waits.
	// A node that does not answer leaves some microseconds at times.
	minReturn = 2 * time.Millisecond

	// maxRedirections is how often a check follows a slot that moves.
	maxRedirections = 8
)

// now returns the time that the script is to decide at: 0 for Redis's own.
func (s *Store) now() int64 {
	if s.clock == nil {
		return 0
	}
	return s.clock()
}

// processNow returns the time by this process.
func (s *Store) processNow() int64 {
	if s.clock == nil {
		return time.Now().UnixMicro()
	}
	return s.clock()
}

// Take implements [core.Store]. See the package's documentation for what a
// Cluster promises when the checks' keys are in different slots.
func (s *Store) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	if err := core.ValidChecks(checks, results); err != nil {
		return err
	}
	clear(results) // what a slot does not answer must not look charged
	if s.leases != nil {
		return s.leases.Take(ctx, checks, results)
	}
	return s.decide(ctx, checks, results)
}

// decide has Redis decide, unless it has just denied the same.
func (s *Store) decide(ctx context.Context, checks []core.Check, results []core.Result) error {
	asking, known := s.denials.find(checks, results)
	if known {
		return nil
	}
	var few [1]*part
	ps := s.split(few[:0], take, checks, nil)
	err := s.ask(ctx, ps, checks, results)
	if err == nil && !denied(checks, results) {
		return nil
	}
	if len(ps) > 1 {
		err = errors.Join(err, s.giveBack(ctx, checks, results))
	}
	if err == nil {
		s.denials.keep(asking, checks, results)
	}
	return err
}

// giveBack refunds what one slot charged and another denied, or did not answer.
// When the deadline is over, or nearly, it does so in the background: then the
// results still count what is on its way back.
func (s *Store) giveBack(ctx context.Context, checks []core.Check, results []core.Result) error {
	back := s.split(nil, refund, checks, results)
	if len(back) == 0 {
		return nil
	}
	if ctx.Err() == nil && timeLeft(ctx) >= minReturn {
		return s.ask(ctx, back, checks, results)
	}
	for i := range results {
		results[i].Charged = false
	}
	select {
	case s.returning <- struct{}{}:
	default:
		return nil // too many already: the charge stays
	}
	go func() {
		defer func() { <-s.returning }()
		ctx, cancel := context.WithTimeout(context.Background(), returnTimeout) // the caller's is not ours any more
		defer cancel()
		_ = s.run(ctx, back) // or the charge stays
	}()
	return nil
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

// Charge implements [core.Store].
func (s *Store) Charge(ctx context.Context, checks []core.Check, results []core.Result) error {
	defer s.denials.forget(checks)
	return s.each(ctx, charge, checks, results)
}

// Refund implements [core.Store].
func (s *Store) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	defer s.denials.forget(checks)
	return s.each(ctx, refund, checks, results)
}

// Renew implements [core.Store].
func (s *Store) Renew(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.each(ctx, renew, checks, results)
}

// Reset implements [core.Store].
func (s *Store) Reset(ctx context.Context, checks []core.Check) error {
	checks = slices.Clone(checks)
	for i := range checks {
		if checks[i].Rule == nil {
			return errors.New("weblimit: check without a rule")
		}
		checks[i].Cost = 0 // it is not read
	}
	defer s.denials.forget(checks)
	if s.leases != nil { // before, so that nothing is spent or returned meanwhile, and of what came meanwhile
		s.leases.Forget(checks)
		defer s.leases.Forget(checks)
	}
	ps := s.split(nil, reset, checks, nil)
	defer release(ps)
	return s.run(ctx, ps)
}

// each runs an operation in which no check depends on another.
func (s *Store) each(ctx context.Context, op operation, checks []core.Check, results []core.Result) error {
	if err := core.ValidChecks(checks, results); err != nil {
		return err
	}
	return s.ask(ctx, s.split(nil, op, checks, results), checks, results)
}

// split makes the parts of a request: one, or one per slot. A refund leaves out
// what was not charged, and a renewal what is no slot, too.
func (s *Store) split(ps []*part, op operation, checks []core.Check, results []core.Result) []*part {
	marks := op == take || op == peek || op == refund || op == reset
	settles := op == refund || op == renew // what results tell of
	now := int64(0)                        // for calendar windows only: not every request need read the clock
	for i := range checks {
		if marks && checks[i].Once != nil {
			charged := int64(0)
			if settles {
				if !results[i].Charged {
					continue
				}
				charged = results[i].At
			}
			var p *part
			ps, p = s.partFor(ps, op, &checks[i])
			p.remember(i, &checks[i], charged)
		}
	}
	for i := range checks {
		charged := int64(0)
		if settles {
			if !results[i].Charged || op == renew && checks[i].Rule.Algorithm != core.Concurrency {
				continue
			}
			charged = checks[i].Rule.ChargedAt(checks[i].Cost, &results[i])
		}
		if now == 0 && checks[i].Rule.Algorithm == core.Calendar {
			now = s.processNow()
		}
		var p *part
		ps, p = s.partFor(ps, op, &checks[i])
		p.clock = now
		p.add(i, &checks[i], charged)
	}
	for _, p := range ps {
		p.seal(s.prefix)
	}
	return ps
}

// partFor returns the part of a check's slot, among ps or added to them.
func (s *Store) partFor(ps []*part, op operation, check *core.Check) ([]*part, *part) {
	slot := s.route.slot(s.prefix, check.Key)
	at := slices.IndexFunc(ps, func(p *part) bool { return p.slot == slot })
	if at < 0 {
		at = len(ps)
		ps = append(ps, newPart(op, slot))
	}
	return ps, ps[at]
}

// ask has the parts decided, fills in the results of those that were, and
// releases them.
func (s *Store) ask(ctx context.Context, ps []*part, checks []core.Check, results []core.Result) error {
	err := s.run(ctx, ps)
	for _, p := range ps {
		if p.state.Load() != abandoned && p.err == nil {
			if failed := p.answer(checks, results); failed != nil {
				err = errors.Join(err, failed)
			}
		}
	}
	release(ps)
	return err
}

func release(ps []*part) {
	for _, p := range ps {
		p.release()
	}
}

// run has the parts decided: those of several slots at once, in the time of one.
func (s *Store) run(ctx context.Context, ps []*part) error {
	if len(ps) == 1 {
		n, err := s.route.node(ctx, ps[0])
		if err == nil {
			err = n.do(ctx, ps[0])
		}
		return s.settle(ctx, n, ps[0], err)
	}
	nodes, errs := make([]*node, len(ps)), make([]error, len(ps))
	for i, p := range ps {
		p.leads = false
		nodes[i], errs[i] = s.route.node(ctx, p)
	}
	for i, n := range nodes {
		if n == nil || slices.Contains(nodes[:i], n) {
			continue
		}
		var together []*part
		for j := i; j < len(ps); j++ {
			if nodes[j] == n {
				together = append(together, ps[j])
			}
		}
		err := n.start(ctx, together)
		for j := i; j < len(ps); j++ {
			if nodes[j] == n {
				errs[j] = err
			}
		}
	}
	for i, p := range ps {
		if errs[i] == nil {
			errs[i] = nodes[i].wait(ctx, p)
		}
		errs[i] = s.settle(ctx, nodes[i], p, errs[i])
	}
	return errors.Join(errs...)
}

// settle follows a part whose slot has moved, to the end.
func (s *Store) settle(ctx context.Context, n *node, p *part, err error) error {
	for hops := 0; err != nil && hops < maxRedirections; hops++ {
		// After TRYAGAIN in a call with others: their keys could be on two nodes for
		// longer than its own are. ASKING gives it a call of its own, and does nothing
		// else to a node that has the slot.
		asking := true
		if to, moved := redirectionOf(err); moved {
			if n, err = s.route.follow(ctx, n, to); err != nil {
				break
			}
			asking = to.ask
		} else if n == nil || classOf(err) != core.ErrorTryAgain || !pause(ctx, 2*time.Millisecond) {
			break
		}
		p.again(asking)
		err = n.do(ctx, p)
	}
	if err != nil && p.state.Load() != abandoned { // else it is not ours any more
		p.err = err
	}
	return err
}

// timeLeft returns the time to the context's deadline, or the default time-out.
func timeLeft(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return time.Until(at)
	}
	return core.DefaultTimeout
}
