package redisstore

// The Store: what it holds, New, and the methods that [store.Store] asks for. How a
// request becomes jobs and reaches its nodes is in dispatch.go, how one with keys in
// several slots is decided in multislot.go.

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/prefetch"
)

// Store keeps the state of limits in Redis. It is safe for concurrent use.
type Store struct {
	store.Base

	// Set by New.
	client     redis.UniversalClient
	route      route
	prefix     string
	clock      func() int64 // microseconds since the epoch; nil for Redis's own
	listener   *listener
	denials    *denialCache         // nil if none is kept
	prefetched *prefetch.Prefetcher // nil if nothing is prefetched

	logLengths  logLengths
	payers      payers
	serverClock serverClock

	// openBreakers counts the nodes whose breaker is open. It may count a node that a
	// Cluster or Ring has replaced meanwhile, so it only says where to look.
	openBreakers atomic.Int32

	// For requests with keys in several slots.
	cardinalities cardinalities
	recentDenials recentDenials
	cleanup       cleanup
	givingBack    chan struct{} // holds one element per request that is given back in the background

	patience patience
}

var _ store.Store = (*Store)(nil)

// New returns a store on a Redis client: a single server, Sentinel, Cluster or
// Ring. The store does not connect before its first check, and never closes the
// client. New panics if client is nil or a nil pointer, if there is more than one Config, or if the
// Config holds a value that makes no sense; its fields say which.
//
// The store uses the client's connections, but neither its retries nor its
// time-outs: a check that timed out may have been charged and is not sent again,
// and the limiter sets the deadline. Of a Cluster it asks masters only, whatever
// the client is set to. It uses up to two connections to each server.
//
// A client of another kind, such as a wrapper around one of these, is used as it
// is, with its own retries and time-outs. Switch its retries off, or a check can
// be charged twice.
//
// Hooks of the client see the store's round trips if they were added before New. Of a Cluster or Ring, hooks
// of the nodes' clients do, as OnNewNode and ForEachShard add them.
//
// New changes nothing of the client, so that it may be in use, and have other stores.
//
// Give the client a Dialer of [NewDialer]. Without it, a process that had no processor for longer than a
// check's deadline, because it was stopped or throttled, takes the round trips that were under way for
// time-outs, whose requests the limits' outage actions decide. These are at most two at a time to each server.
func New(client redis.UniversalClient, config ...Config) *Store {
	if client == nil {
		panic("weblimit: redisstore.New: the client is nil")
	}
	if v := reflect.ValueOf(client); v.Kind() == reflect.Pointer && v.IsNil() {
		panic(fmt.Sprintf("weblimit: redisstore.New: the client is a nil %T", client))
	}
	if len(config) > 1 {
		panic("weblimit: redisstore.New: more than one Config")
	}
	var c Config
	if len(config) == 1 {
		c = config[0]
	}
	c = c.validate()
	s := &Store{client: client, prefix: c.Prefix, givingBack: make(chan struct{}, maxGivingBack), patience: usualPatience}
	s.listener = newListener(client, c.Prefix, max(c.DenialCache.Age, c.Prefetch.MaxAge))
	s.denials = newDenialCache(c.DenialCache, s.listener)
	s.prefetched = c.Prefetch.prefetcher(s)
	s.route = s.routeFor(client)
	s.Registry().SetServer(store.Server{Eviction: s.eviction, Swap: s.swap})
	counting.SetRestorer(s, s)
	return s
}

// now returns the time that the script is to decide at: 0 for Redis's own.
func (s *Store) now() int64 {
	if s.clock == nil {
		return 0
	}
	return s.clock()
}

// Take implements [store.Store]. See the package's documentation for what a
// Cluster promises when the checks' keys are in different slots.
func (s *Store) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	if err := counting.ValidChecks(checks, results); err != nil {
		return err
	}
	clear(results) // a slot that does not answer must not look charged
	if err := counting.ValidChoices(checks); err != nil {
		return err
	}
	choices := counting.AnyChoice(checks)
	switch {
	case choices && s.spansSlots(checks):
		return s.takeInTurn(ctx, checks, results)
	case s.prefetched != nil && !choices: // what a slice holds can't tell which alternative pays
		return s.prefetched.Take(ctx, checks, results)
	}
	return s.decide(ctx, checks, results)
}

// maxAttempts is how often a request is asked for in all while its denial is a
// tentative one.
const maxAttempts = 3

// decide has Redis decide, unless the denial cache knows the answer. It asks again
// for a tentative denial.
func (s *Store) decide(ctx context.Context, checks []store.Check, results []store.Result) error {
	if anyPenalized(checks) {
		s.cleanup.wait(ctx) // a tentative denial would be asked for again, and counted again
	}
	again, err := s.attempt(ctx, checks, results)
	for n := 1; n < maxAttempts && again && err == nil && s.waitForTentative(ctx); n++ {
		clear(results)
		again, err = s.attempt(ctx, checks, results)
	}
	return err
}

// waitForTentative waits until it is worth asking again after a tentative denial. It
// reports false if the context ends before.
func (s *Store) waitForTentative(ctx context.Context) bool {
	return s.cleanup.wait(ctx) && ctx.Err() == nil || pause(ctx, time.Millisecond)
}

// attempt decides once. It reports whether to ask again, because the denial is a
// tentative one.
func (s *Store) attempt(ctx context.Context, checks []store.Check, results []store.Result) (again bool, err error) {
	lookup, known := s.denials.find(checks, results)
	if known {
		return false, nil
	}
	var few [1]*job // not on the heap, for the common case of one slot
	js := s.jobsFor(few[:0], take, checks, nil)
	if len(js) != 1 {
		return s.takeMultiSlot(ctx, lookup, js, checks, results)
	}
	j := js[0]
	j.Notice = s.noticeFor(lookup)
	j.seal(s.prefix)
	if err = s.run(ctx, js); err == nil {
		err = j.readAnswer(checks, results)
	}
	d, blocked := j.denial, int64(0)
	if err == nil && d.final && j.penalized {
		blocked = j.blockedThroughout(checks) * int64(time.Microsecond)
	}
	releaseAll(js)
	if err == nil && d.final && !d.tentative {
		s.keepDenial(lookup, checks, results, blocked)
	}
	return err == nil && worthAnotherAttempt(checks, d), err
}

// isDenied reports whether an enforced check did not fit.
func isDenied(checks []store.Check, results []store.Result) bool {
	for i := range results {
		if counting.IsDenial(&checks[i], &results[i]) {
			return true
		}
	}
	return false
}

// Peek implements [store.Store].
func (s *Store) Peek(ctx context.Context, checks []store.Check, results []store.Result) error {
	if err := counting.ValidChoices(checks); err != nil {
		return err
	}
	err := s.runEach(ctx, peek, checks, results)
	if err == nil && counting.AnyChoice(checks) {
		counting.PassOver(checks, results) // by all slots
	}
	return err
}

// Charge implements [store.Store].
func (s *Store) Charge(ctx context.Context, checks []store.Check, results []store.Result) error {
	defer s.denials.forget(checks)
	return s.runEach(ctx, charge, checks, results)
}

// Refund implements [store.Store].
func (s *Store) Refund(ctx context.Context, checks []store.Check, results []store.Result) error {
	defer s.denials.forget(checks)
	return s.runEach(ctx, refund, checks, results)
}

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.runEach(ctx, renew, checks, results)
}

// Reset implements [store.Store].
func (s *Store) Reset(ctx context.Context, checks []store.Check) error {
	if err := counting.ValidKeys(checks); err != nil {
		return err
	}
	checks = slices.Clone(checks)
	for i := range checks {
		checks[i].Cost = 0 // it is not read
	}
	defer s.forgetBlocked(checks)
	if s.prefetched != nil {
		// Before, so that nothing is spent or returned meanwhile, and after, because of
		// slices that came meanwhile.
		s.prefetched.Forget(checks)
		defer s.prefetched.Forget(checks)
	}
	js := s.sealAll(s.jobsFor(nil, reset, checks, nil))
	defer releaseAll(js)
	return s.run(ctx, js)
}

// runEach runs an operation in which no check depends on another.
func (s *Store) runEach(ctx context.Context, op operation, checks []store.Check, results []store.Result) error {
	if err := counting.ValidChecks(checks, results); err != nil {
		return err
	}
	for n := 1; ; n++ {
		js := s.sealAll(s.jobsFor(nil, op, checks, results))
		tentative, err := s.runAndRead(ctx, js, checks, results)
		if err != nil || !tentative || n == maxAttempts || !s.waitForTentative(ctx) {
			return err
		}
	}
}

// runAndRead runs jobs in which no check depends on another, reads their answers and releases them.
// It reports whether a denial is tentative.
func (s *Store) runAndRead(ctx context.Context, js []*job, checks []store.Check, results []store.Result) (tentative bool, err error) {
	err = s.run(ctx, js)
	for _, j := range js {
		if !j.isAbandoned() && j.err == nil {
			if failed := j.readAnswer(checks, results); failed != nil {
				err = errors.Join(err, failed)
			}
			tentative = tentative || j.tentative
		}
	}
	err = undone(js, err)
	releaseAll(js)
	return tentative, err
}
