package pgstore

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core/store"
)

// group is calls that have records in common. They are decided one after the other, and
// written together or not at all.
type group struct {
	jobs    []*job
	records map[string]*record
	losses  int  // trials that failed because a record was not as remembered
	locked  bool // in the last trial, by somebody else
}

// groupsOf puts calls that have records in common into one group, in their order.
func groupsOf(jobs []*job) []*group {
	var groups []*group
	of := map[string]*group{}
	for _, j := range jobs {
		var into *group
		for _, id := range j.ids {
			g := of[id]
			switch {
			case g == nil || g == into:
			case into == nil:
				into = g
			default: // the call joins two groups
				into.jobs = append(into.jobs, g.jobs...)
				for id := range g.records {
					into.records[id], of[id] = nil, into
				}
				g.jobs = nil
			}
		}
		if into == nil {
			into = &group{records: map[string]*record{}}
			groups = append(groups, into)
		}
		into.jobs = append(into.jobs, j)
		for _, id := range j.ids {
			into.records[id], of[id] = nil, into
		}
	}
	return slices.DeleteFunc(groups, func(g *group) bool { return len(g.jobs) == 0 })
}

// fly does jobs whose records no other flight has.
func (s *Store) fly(jobs []*job) {
	groups := groupsOf(jobs)
	deadline := time.Duration(0)
	for _, j := range jobs {
		deadline = max(deadline, j.deadline)
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline-monotonic()+grace)
	defer cancel()
	var quiet, contended []*group
	for _, g := range groups {
		if s.recall(g); g.isContended() {
			contended = append(contended, g)
		} else {
			quiet = append(quiet, g)
		}
	}
	groups = contended
	if len(quiet) > 0 {
		groups = append(groups, s.tryTogether(ctx, quiet)...)
	}
	// From here on this flight waits for other processes, which must not keep calls for other records waiting: those
	// that lock have places of their own, in lockers.
	s.queue.returned()
	var locked sync.WaitGroup
	for _, g := range groups {
		locked.Go(func() { s.tryLocked(ctx, g) })
	}
	locked.Wait()
	s.sweepSometimes()
}

// tryTogether decides groups by what the process remembers, and returns those whose records
// have to be locked.
func (s *Store) tryTogether(ctx context.Context, groups []*group) (contended []*group) {
	conn, err := s.acquire(ctx)
	if err != nil {
		s.failed(groups, err)
		return nil
	}
	defer s.release(conn)
	for late := 0; len(groups) > 0; {
		if groups = s.begin(groups); len(groups) == 0 {
			break
		}
		answer, err := s.exchange(ctx, conn, groups)
		if answer != nil {
			groups = answer.request.decided
		}
		switch {
		case err != nil && (isRetried(err) || isLocked(err)):
			// Somebody else's transaction; which of the groups it is about is not known.
			s.answered(ctx)
			return append(contended, s.again(groups)...)
		case err != nil:
			s.failed(groups, err)
			return contended
		}
		s.answered(ctx)
		if answer.late {
			if late++; late > mostLate {
				s.failed(groups, &unsent{errClock})
				return contended
			}
			groups = s.again(groups)
			continue
		}
		won, lost := answer.sort()
		s.won(won)
		groups = nil
		for _, g := range s.again(lost) {
			if g.losses >= optimisticTrials || g.locked {
				for _, r := range g.records {
					r.contended = contendedFor
				}
				contended = append(contended, g)
			} else {
				groups = append(groups, g)
			}
		}
	}
	return contended
}

// tryLocked decides a group whose records it locks first.
func (s *Store) tryLocked(ctx context.Context, g *group) {
	one := []*group{g}
	for _, j := range g.jobs {
		j.locks.Store(true)
	}
	select {
	case s.lockers <- struct{}{}:
		defer func() { <-s.lockers }()
	case <-time.After(timeLeft(ctx)):
		s.failed(one, &unsent{context.DeadlineExceeded})
		return
	}
	conn, err := s.acquire(ctx)
	if err != nil {
		s.failed(one, err)
		return
	}
	defer s.release(conn) // closes a connection that is left in a transaction
	for trial := 0; len(s.begin(one)) > 0; trial++ {
		won, err := s.exchangeLocked(ctx, conn, g)
		switch {
		case err != nil && !isRetried(err):
			if isLocked(err) { // by somebody else: the server answers, and this record is busy
				s.answered(ctx)
			}
			s.failed(one, err)
			return
		case err == nil && won:
			s.answered(ctx)
			s.won(one)
			return
		}
		if len(s.again(one)) == 0 {
			return
		}
		// Spread those who compete. Nearly all win at the first trial.
		pause(ctx, rand.N(time.Millisecond<<min(trial, 5))) //nolint:gosec // G404: hides nothing
		if timeLeft(ctx) <= 0 {
			s.failed(one, &unsent{context.DeadlineExceeded})
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// recall sets a group's records to what the process remembers of them. What it does not remember it takes for absent, so
// that the first call for a new client needs one round trip, too.
func (s *Store) recall(g *group) {
	for _, j := range g.jobs {
		for i := range j.parts {
			for part, id := range j.parts[i] {
				if id != "" && g.records[id] == nil {
					g.records[id] = &record{kind: kinds[part], row: s.memo.get(id)}
				}
			}
		}
	}
}

func (g *group) isContended() bool {
	for _, r := range g.records {
		if r.contended > 0 {
			return true
		}
	}
	return false
}

// begin drops the jobs whose callers have left, and then groups without jobs.
func (s *Store) begin(groups []*group) []*group {
	return s.keep(groups, (*job).begins)
}

// again is begin after a trial that changed nothing.
func (s *Store) again(groups []*group) []*group {
	return s.keep(groups, (*job).waitsAgain)
}

func (s *Store) keep(groups []*group, stays func(*job) bool) []*group {
	var gone []*job
	kept := groups[:0]
	for _, g := range groups {
		jobs := g.jobs[:0]
		for _, j := range g.jobs {
			if stays(j) {
				jobs = append(jobs, j)
			} else {
				gone = append(gone, j)
			}
		}
		if g.jobs = jobs; len(jobs) > 0 {
			kept = append(kept, g)
		}
	}
	if len(gone) > 0 {
		s.queue.landed(gone)
	}
	return kept
}

// won ends the jobs of groups that were written. The memo is set before the records land: the next flight of a record
// recalls it at once, and would lose by what is old.
func (s *Store) won(groups []*group) {
	for _, g := range groups {
		for id, r := range g.records {
			now := r.row
			if r.newVersion > 0 {
				now.version, now.state = r.newVersion, r.newState
			}
			s.memo.set(id, now)
		}
		s.queue.landed(g.jobs)
		for _, j := range g.jobs {
			j.end(nil)
		}
	}
}

// failed ends the jobs of groups with an error.
func (s *Store) failed(groups []*group, err error) {
	f := s.failureOf(err)
	s.noteFailure(f.err)
	for _, g := range groups {
		for id := range g.records {
			s.memo.set(id, row{}) // what is there now is not known
		}
		s.queue.landed(g.jobs)
		for _, j := range g.jobs {
			j.end(f)
		}
	}
}

// decide runs the jobs of a group on its records as they are known. low and high bound the
// server's time. It returns the time at which it decided.
func (g *group) decide(low, high int64) (now int64, err error) {
	// Whoever can write to the table can write numbers that no rule could have led to.
	defer func() {
		if recover() != nil {
			err = errLayout
		}
	}()
	now = low
	blind := !slices.ContainsFunc(g.jobs, func(j *job) bool { return !j.blind })
	for _, r := range g.records {
		if err := r.open(); err != nil && !blind {
			return 0, err
		}
		// A process that wrote the record knew a later time.
		now = max(now, min(r.at, high))
	}
	for _, j := range g.jobs {
		j.decide(now, g.records)
	}
	for _, r := range g.records {
		r.newVersion, r.newState, r.newEnds = 0, []byte{}, 0
		if !r.dirty {
			continue
		}
		r.encode(now)
		// A version never comes back: a process that remembers an old one can't take this row for the one it knows.
		if r.version != 0 || len(r.newState) > 0 { // else there is nothing to forget
			r.newVersion = 1 + rand.Int64N(math.MaxInt64-1) //nolint:gosec // G404: unlikely to repeat is enough
		}
	}
	return now, nil
}

// exchange decides groups and has the server write them.
func (s *Store) exchange(ctx context.Context, conn *pgxpool.Conn, groups []*group) (*answer, error) {
	low, high, err := s.time(ctx, conn)
	if err != nil {
		return nil, err
	}
	request := newRequest(groups, low, high, func(g *group, err error) { s.failed([]*group{g}, err) })
	answer := &answer{request: request}
	if len(request.decided) == 0 {
		return answer, nil
	}
	sent := monotonic()
	if err := answer.scan(conn.QueryRow(ctx, s.sql.swap, s.swapArgs(ctx, request)...)); err != nil {
		return answer, err
	}
	s.learn(answer.clock, sent, answer.late)
	return answer, nil
}

// exchangeLocked locks a group's records, decides, and writes. won is false if a new record
// came in between.
func (s *Store) exchangeLocked(ctx context.Context, conn *pgxpool.Conn, g *group) (won bool, err error) {
	defer func() {
		if isUndone(err) { // the server goes on
			_, _ = conn.Exec(ctx, "ROLLBACK")
		}
	}()
	ids := g.ids()
	var locking pgx.Batch
	locking.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	// If this process is stopped in between, PostgreSQL ends the transaction.
	locking.Queue("SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true)", fmt.Sprint(patience(ctx, 1)+grace.Milliseconds()))
	locking.Queue(s.sql.lock, patience(ctx, 1), s.setClock(), hash32("weblimit "+s.config.Schema), turnsOf(ids), bytesOf(ids))
	sent := monotonic()
	clock, err := s.readLocked(conn.SendBatch(ctx, &locking), g, ids)
	if err != nil {
		return false, err
	}
	s.learn(clock, sent, false)
	low, high, err := s.time(ctx, conn)
	if err != nil {
		return false, err
	}
	request := newRequest([]*group{g}, low, high, func(_ *group, unreadable error) { err = unreadable })
	if err != nil {
		return false, err
	}
	var writing pgx.Batch
	writing.Queue(s.sql.swap, s.swapArgs(ctx, request)...)
	writing.Queue("COMMIT")
	results := conn.SendBatch(ctx, &writing)
	var answer answer
	if err = answer.scan(results.QueryRow()); err == nil {
		_, err = results.Exec()
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return false, err
	}
	return !answer.late && len(answer.failed) == 0, nil
}

// readLocked reads the records that were locked.
func (s *Store) readLocked(results pgx.BatchResults, g *group, ids []string) (clock int64, err error) {
	var versions []int64
	var states [][]byte
	for range 2 { // BEGIN, and the timeout
		if err == nil {
			_, err = results.Exec()
		}
	}
	if err == nil {
		err = results.QueryRow().Scan(&clock, &versions, &states)
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return 0, err
	}
	for i, id := range ids {
		r := g.records[id]
		switch {
		case r.contended == 0:
		case r.version != versions[i]:
			r.contended = contendedFor
		default: // it would have been written without a lock
			r.contended--
		}
		r.version, r.state = versions[i], states[i]
	}
	return clock, nil
}

// acquire takes a connection of the pool, for release. Jobs begin only when there is one, so
// that a caller who leaves before knows that nothing was done.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLeft(ctx))
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err == nil {
		s.held.Add(1)
		return conn, nil
	}
	if ctx.Err() != nil && s.isPoolTaken() {
		err = s.poolTaken()
	}
	return nil, &unsent{err}
}

func (s *Store) release(conn *pgxpool.Conn) {
	s.held.Add(-1)
	conn.Release()
}

// isPoolTaken reports whether the application itself uses all connections of the pool.
func (s *Store) isPoolTaken() bool {
	stat := s.pool.Stat()
	return s.held.Load() == 0 && stat.AcquiredConns() >= stat.MaxConns()
}

func (s *Store) poolTaken() *store.Error {
	return &store.Error{Class: store.ClassOverload, Node: s.node, Err: errPool}
}
