package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// Store is a [store.Store] that keeps its state in PostgreSQL. See the package's
// documentation for what it guarantees.
//
// A Store is safe for concurrent use. It runs no goroutine between calls and has nothing to
// close; the pool is the application's.
type Store struct {
	store.Base

	pool    *pgxpool.Pool
	config  Config
	node    string
	sql     statements
	now     func() int64 // the clock of tests; else nil
	queue   *queue
	held    atomic.Int32  // connections that are in use
	lockers chan struct{} // one for each flight that may lock records
	memo    memo
	clock   clock
	health  health
	sweeper sweeper
}

var _ store.Store = (*Store)(nil)

// Open makes or updates what the store needs in the database, by [Migrate], and returns a
// store. Its error says what PostgreSQL refused.
func Open(ctx context.Context, pool *pgxpool.Pool, config ...Config) (*Store, error) {
	if pool == nil {
		return nil, errors.New("weblimit: pgstore.Open: nil pool")
	}
	if err := Migrate(ctx, pool, config...); err != nil {
		return nil, err
	}
	return New(pool, config...), nil
}

// New returns a store on a database that [Migrate] has prepared. It does not connect. It
// panics if the pool is nil, if there is more than one Config, or if the Config holds a
// value that makes no sense; its fields say which.
func New(pool *pgxpool.Pool, config ...Config) *Store {
	if pool == nil {
		panic("weblimit: pgstore.New: nil pool")
	}
	c, err := single(config)
	if err == nil {
		c, err = c.complete(pool.Config().MaxConns)
	}
	if err != nil {
		panic(err.Error())
	}
	s := &Store{pool: pool, config: c, node: nodeOf(pool), sql: statementsIn(c.Schema), lockers: make(chan struct{}, c.Connections)}
	s.queue = newQueue(c.Connections, s.fly)
	counting.SetRestorer(s, s)
	s.Registry().SetServer(store.Server{Swap: s.swap})
	return s
}

// nodeOf returns the server's address. The pool may know several, of which it uses one.
func nodeOf(pool *pgxpool.Pool) string {
	c := pool.Config().ConnConfig
	if c.Host != "" && c.Host[0] == '/' {
		return c.Host
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
}

// The methods of store.Store. A method that needs penalties needs their buckets, too: see
// group.hold.
var (
	take = operation{bucket: true, penalty: true, mark: true, share: true, run: func(now int64, checks []store.Check, states []counting.State, results []store.Result) {
		counting.Decide(now, checks, states, true)
		counting.Answer(checks, states, results)
	}}
	peek = operation{bucket: true, penalty: true, mark: true, share: true, run: func(now int64, checks []store.Check, states []counting.State, results []store.Result) {
		counting.Decide(now, checks, states, false)
		counting.Answer(checks, states, results)
	}}
	charge = operation{bucket: true, share: true, run: counting.Charge}
	refund = operation{bucket: true, mark: true, share: true, run: counting.Refund}
	renew  = operation{bucket: true, run: counting.Renew}
	reset  = operation{bucket: true, penalty: true, mark: true, share: true, blind: true, run: func(_ int64, checks []store.Check, states []counting.State, _ []store.Result) {
		counting.Reset(checks, states)
	}}
	unblock = operation{bucket: true, penalty: true, blind: true, run: func(_ int64, checks []store.Check, states []counting.State, _ []store.Result) {
		counting.UnblockKeys(checks, states)
	}}
)

// Take implements [store.Store].
func (s *Store) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.answerChoices(ctx, take, checks, results)
}

// Peek implements [store.Store].
func (s *Store) Peek(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.answerChoices(ctx, peek, checks, results)
}

// Charge implements [store.Store].
func (s *Store) Charge(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.answer(ctx, charge, checks, results)
}

// Refund implements [store.Store].
func (s *Store) Refund(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.answer(ctx, refund, checks, results)
}

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.answer(ctx, renew, checks, results)
}

// Reset implements [store.Store].
func (s *Store) Reset(ctx context.Context, checks []store.Check) error {
	if err := counting.ValidKeys(checks); err != nil {
		return err
	}
	return s.inParts(ctx, reset, checks)
}

// Block implements [store.Store].
func (s *Store) Block(ctx context.Context, checks []store.Check, d time.Duration) error {
	if err := errors.Join(counting.ValidKeys(checks), store.ValidBlockTime(d)); err != nil {
		return err
	}
	block := operation{bucket: true, penalty: true, run: func(now int64, checks []store.Check, states []counting.State, _ []store.Result) {
		counting.BlockKeys(now, checks, states, d)
	}}
	return s.inParts(ctx, block, checks)
}

// Unblock implements [store.Store].
func (s *Store) Unblock(ctx context.Context, checks []store.Check) error {
	if err := counting.ValidKeys(checks); err != nil {
		return err
	}
	return s.inParts(ctx, unblock, checks)
}

// inParts does an operation without results on any number of checks.
func (s *Store) inParts(ctx context.Context, op operation, checks []store.Check) error {
	for len(checks) > 0 {
		part := checks[:min(len(checks), mostChecks)]
		checks = checks[len(part):]
		if err := s.do(ctx, op, part, nil); err != nil {
			return err
		}
	}
	return nil
}

// answerChoices is answer for operations that read Check.Or.
func (s *Store) answerChoices(ctx context.Context, op operation, checks []store.Check, results []store.Result) error {
	if err := counting.ValidChoices(checks); err != nil {
		return err
	}
	return s.answer(ctx, op, checks, results)
}

// answer does an operation that has results.
func (s *Store) answer(ctx context.Context, op operation, checks []store.Check, results []store.Result) error {
	if err := counting.ValidChecks(checks, results); err != nil {
		return err
	}
	if len(checks) == 0 {
		return nil
	}
	return s.do(ctx, op, checks, results)
}

// do waits until the operation is done, or the context has ended.
func (s *Store) do(ctx context.Context, op operation, checks []store.Check, results []store.Result) error {
	now := monotonic()
	deadline := now + s.config.Timeout
	if end, ok := ctx.Deadline(); ok {
		deadline = min(deadline, now+time.Until(end))
	}
	if err := s.refuse(); err != nil {
		return undone(checks, results, err)
	}
	if ctx.Err() != nil || deadline <= now {
		return undone(checks, results, s.errorOf(context.DeadlineExceeded))
	}
	j := newJob(op, checks, results, deadline)
	if !s.queue.add(j) {
		return undone(checks, results, &store.Error{Class: store.ClassOverload, Node: s.node, Err: fmt.Errorf("%d calls are waiting", mostWaiting)})
	}
	timer := time.NewTimer(deadline - now)
	defer timer.Stop()
	select {
	case <-j.done:
	case <-timer.C:
		return s.leave(j, checks, results, deadline-now, context.DeadlineExceeded)
	case <-ctx.Done():
		// Late or not, it had no more time than until its deadline.
		return s.leave(j, checks, results, min(monotonic(), deadline)-now, ctx.Err())
	}
	if f := j.failure; f != nil {
		if f.undone {
			return undone(checks, results, f.err)
		}
		return f.err
	}
	j.copyTo(checks, results)
	return nil
}

// leave returns the error of a call that waits no longer.
func (s *Store) leave(j *job, checks []store.Check, results []store.Result, waited time.Duration, cause error) error {
	undoes := j.leave()
	err := s.errorOf(cause)
	if undoes && s.isPoolTaken() {
		err = s.poolTaken()
	}
	if !errors.Is(cause, context.Canceled) { // a caller that hangs up says nothing about the server
		s.noteTimeout(waited, undoes || j.locks.Load(), err)
	}
	if undoes {
		return undone(checks, results, err)
	}
	return err
}

// undone returns the error of a call that has certainly changed nothing.
func undone(checks []store.Check, results []store.Result, err *store.Error) error {
	if len(results) == 0 {
		return err
	}
	indexes := make([]int, len(checks))
	for i := range indexes {
		indexes[i] = i
	}
	return &store.Undone{Checks: indexes, Err: err}
}

// errorOf returns an error of pgx as the store's.
func (s *Store) errorOf(err error) *store.Error {
	var known *store.Error
	if errors.As(err, &known) {
		return known
	}
	return &store.Error{Class: classOf(err), Node: s.node, Err: err}
}

func (s *Store) failureOf(err error) *failure {
	return &failure{err: s.errorOf(err), undone: isUndone(err)}
}
