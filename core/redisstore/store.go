package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/prefetch"
)

// Store keeps the state of limits in Redis. It is safe for concurrent use.
type Store struct {
	store.Base

	client redis.UniversalClient
	route  route
	prefix string
	clock  func() int64 // microseconds since the epoch; nil for Redis's own

	denials    *denials             // nil if none are kept
	prefetched *prefetch.Prefetcher // nil if nothing is prefetched
	returning  chan struct{}        // holds one element per charge that is given back in the background

	spreads  spreads      // of limits, and
	suspects suspects     // keys: what decides how several slots are asked
	clearing clearing     // holds that are to be cleared
	out      atomic.Int32 // nodes whose breakers are open
	logs     logs         // how long they are
}

var _ store.Store = (*Store)(nil)

// New returns a store on a Redis client: a single server, Sentinel, Cluster or
// Ring. The store does not connect before its first check, and never closes the
// client. New panics if client is nil, if there is more than one Config, or if the
// Config holds a value that makes no sense; its fields say which.
//
// The store uses the client's connections, but neither its retries nor its
// time-outs: a check that timed out may have been charged and is not sent again,
// and the limiter sets the deadline. Of a Cluster it asks masters only, whatever
// the client is set to. It uses up to two connections to each server.
//
// A client of another kind, such as a wrapper around one of these, is used as it
// is, with its own retries and time-outs. Switch its retries off, or a check can
// be charged twice. Hooks must be added to the client before New.
func New(client redis.UniversalClient, config ...Config) *Store {
	if client == nil {
		panic("weblimit: redisstore.New: the client is nil")
	}
	if len(config) > 1 {
		panic("weblimit: redisstore.New: more than one Config")
	}
	var c Config
	if len(config) == 1 {
		c = config[0]
	}
	c = c.validate()
	s := &Store{client: client, prefix: c.Prefix, returning: make(chan struct{}, maxReturning)}
	s.denials = newDenials(c.DenialCache)
	s.prefetched = c.Prefetch.prefetcher(s)
	s.route = s.routeFor(client)
	s.Registry().SetInspector(s.inspect)
	return s
}

// maxRedirections is how often a check follows a slot that moves.
const maxRedirections = 8

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

// Take implements [store.Store]. See the package's documentation for what a
// Cluster promises when the checks' keys are in different slots.
func (s *Store) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	if err := store.ValidChecks(checks, results); err != nil {
		return err
	}
	clear(results) // what a slot does not answer must not look charged
	if s.prefetched != nil {
		return s.prefetched.Take(ctx, checks, results)
	}
	return s.decide(ctx, checks, results)
}

// maxLooks is how often a request is asked for that is denied by what may be given
// back in a moment.
const maxLooks = 3

// decide has Redis decide, unless it has just denied the same.
func (s *Store) decide(ctx context.Context, checks []store.Check, results []store.Result) error {
	if penalized(checks) {
		s.clearing.wait(ctx) // what is asked again is counted again
	}
	again, err := s.look(ctx, checks, results)
	for n := 1; n < maxLooks && again && err == nil && s.settled(ctx); n++ {
		clear(results)
		again, err = s.look(ctx, checks, results)
	}
	return err
}

// settled waits until it is worth asking again after a denial that may be over in a
// moment. It reports false if the context ends before.
func (s *Store) settled(ctx context.Context) bool {
	return s.clearing.wait(ctx) && ctx.Err() == nil || pause(ctx, time.Millisecond)
}

// look is decide, once. It reports whether to ask again for what tentative charges
// have denied.
func (s *Store) look(ctx context.Context, checks []store.Check, results []store.Result) (again bool, err error) {
	asking, known := s.denials.find(checks, results)
	if known {
		return false, nil
	}
	var few [1]*part
	ps := s.split(few[:0], take, anySlot, checks, nil)
	if len(ps) != 1 {
		return s.takeSeveral(ctx, asking, ps, checks, results)
	}
	p := ps[0]
	p.seal(s.prefix)
	if err = s.run(ctx, ps); err == nil {
		err = p.answer(checks, results)
	}
	settled, unsettled := p.settled, p.unsettled
	release(ps)
	if err == nil && settled && !unsettled {
		s.denials.keep(asking, checks, results)
	}
	return err == nil && worthAgain(checks, settled, unsettled), err
}

// isDenied reports whether an enforced check did not fit.
func isDenied(checks []store.Check, results []store.Result) bool {
	for i := range results {
		if !results[i].Allowed && !checks[i].Shadow {
			return true
		}
	}
	return false
}

// Peek implements [store.Store].
func (s *Store) Peek(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.each(ctx, peek, checks, results)
}

// Charge implements [store.Store].
func (s *Store) Charge(ctx context.Context, checks []store.Check, results []store.Result) error {
	defer s.denials.forget(checks)
	return s.each(ctx, charge, checks, results)
}

// Refund implements [store.Store].
func (s *Store) Refund(ctx context.Context, checks []store.Check, results []store.Result) error {
	defer s.denials.forget(checks)
	return s.each(ctx, refund, checks, results)
}

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.each(ctx, renew, checks, results)
}

// Reset implements [store.Store].
func (s *Store) Reset(ctx context.Context, checks []store.Check) error {
	checks = slices.Clone(checks)
	for i := range checks {
		if checks[i].Rule == nil {
			return errors.New("weblimit: check without a rule")
		}
		checks[i].Cost = 0 // it is not read
	}
	defer s.denials.forget(checks)
	if s.prefetched != nil { // before, so that nothing is spent or returned meanwhile, and of what came meanwhile
		s.prefetched.Forget(checks)
		defer s.prefetched.Forget(checks)
	}
	ps := s.seal(s.split(nil, reset, anySlot, checks, nil))
	defer release(ps)
	return s.run(ctx, ps)
}

// each runs an operation in which no check depends on another.
func (s *Store) each(ctx context.Context, op operation, checks []store.Check, results []store.Result) error {
	if err := store.ValidChecks(checks, results); err != nil {
		return err
	}
	for n := 1; ; n++ {
		ps := s.seal(s.split(nil, op, anySlot, checks, results))
		err := s.run(ctx, ps)
		unsettled := false
		for _, p := range ps {
			if p.state.Load() != abandoned && p.err == nil {
				if failed := p.answer(checks, results); failed != nil {
					err = errors.Join(err, failed)
				}
				unsettled = unsettled || p.unsettled
			}
		}
		release(ps)
		if err != nil || !unsettled || n == maxLooks || !s.settled(ctx) {
			return err
		}
	}
}

// anySlot is the slot of parts whose checks may be of several.
const anySlot = -1

// split makes the parts of a request: one, or one per slot, unless all are known to
// be in one. A refund leaves out what was not charged, and a renewal what is no
// slot, too. The parts are to be sealed.
func (s *Store) split(ps []*part, op operation, slot int, checks []store.Check, results []store.Result) []*part {
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
			ps, p = s.partFor(ps, op, slot, &checks[i])
			p.remember(i, &checks[i], charged)
		}
	}
	for i := range checks {
		charged := int64(0)
		if settles {
			if !results[i].Charged || op == renew && checks[i].Rule.Algorithm != store.Concurrency {
				continue
			}
			charged = checks[i].Rule.ChargedAt(checks[i].Cost, &results[i])
		}
		if now == 0 && checks[i].Rule.Algorithm == store.Calendar {
			now = s.processNow()
		}
		var p *part
		ps, p = s.partFor(ps, op, slot, &checks[i])
		p.Clock = now
		p.add(i, &checks[i], charged)
	}
	return ps
}

// partFor returns the part of a check's slot, among ps or added to them.
func (s *Store) partFor(ps []*part, op operation, slot int, check *store.Check) ([]*part, *part) {
	if slot == anySlot {
		slot = s.route.slot(s.prefix, check.Key)
	}
	at := slices.IndexFunc(ps, func(p *part) bool { return p.slot == slot })
	if at < 0 {
		at = len(ps)
		ps = append(ps, newPart(op, slot))
		ps[at].logs = &s.logs
	}
	return ps, ps[at]
}

// seal seals parts.
func (s *Store) seal(ps []*part) []*part {
	for _, p := range ps {
		p.seal(s.prefix)
	}
	return ps
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
		} else if n == nil || classOf(err) != store.ClassTryAgain || !pause(ctx, 2*time.Millisecond) {
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
	return store.DefaultTimeout
}
