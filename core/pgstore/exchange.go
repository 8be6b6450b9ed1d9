package pgstore

import (
	"context"
	"errors"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// mostLate is how often a flight believes a clock that turns out to be wrong. A clock that is being changed can be wrong again.
const mostLate = 3

// grace is how long a flight waits for an answer after its callers have left, because pgx can
// only close a connection whose answer is not awaited. The server refuses what it reads then.
const grace = 250 * time.Millisecond

var (
	// errClock: the times of a request, reckoned from the server's clock, lay too far behind it, again and again.
	// Mostly the process or the server was slow, so it is a time-out; now and then somebody sets the clock.
	errClock = errors.New("the request was late again and again, or the server's clock is being changed")
	errPool  = errors.New("all connections of the pool are in use")
)

// unsent wraps an error of a statement that was not sent.
type unsent struct{ error }

func (e *unsent) Unwrap() error { return e.error }

// statements are the calls of the functions in sql/, in the store's schema.
type statements struct{ swap, lock, sweep, clock, blocks, manual, swapValues string }

func statementsIn(schema string) statements {
	return statements{
		swap: in(schema, "SELECT clock, late, failed, locked, places, versions, states"+
			" FROM @.pgstore_swap_2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
		lock:   in(schema, "SELECT clock, versions, states FROM @.pgstore_lock_1($1, $2, $3, $4, $5)"),
		sweep:  in(schema, "SELECT @.pgstore_sweep_1($1, $2)"),
		clock:  "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
		blocks: in(schema, "SELECT id, state FROM @.pgstore_record WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3"),
		manual: in(schema, `SELECT id, state FROM @.pgstore_record WHERE id >= $1 AND id < $2 AND substring(state FROM 1 FOR 1) = '\x02' ORDER BY id LIMIT $3`),
		// All parts of a statement see the table as it was when it began, and the ids are in one order, so
		// that no two statements wait for each other.
		swapValues: in(schema, `WITH now AS (SELECT extract(epoch FROM clock_timestamp())::bigint / 60 AS minute),
			mine AS (SELECT * FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS m (id, state, place)),
			put AS (INSERT INTO @.pgstore_record AS r (id, version, ends, state)
				SELECT id, 1, (SELECT minute FROM now) + $3 + 1, state FROM mine ORDER BY id
				ON CONFLICT (id) DO UPDATE SET ends = excluded.ends, state = excluded.state)
			SELECT coalesce(substring(r.state FROM 1 FOR $4), '') FROM mine LEFT JOIN @.pgstore_record r ON r.id = mine.id AND r.ends >= (SELECT minute FROM now) ORDER BY place`),
	}
}

// request is the arguments of pgstore_swap about records.
type request struct {
	decided    []*group
	low, at    int64
	ids        []string
	groups     []int32
	olds, news []int64
	ends       []int32
	states     [][]byte
}

// newRequest decides groups at the server's time, which low and high bound, and returns what
// is to be written. It hands groups that can't be decided to fail, and leaves them out.
func newRequest(groups []*group, low, high int64, fail func(*group, error)) *request {
	q := &request{low: low, at: low}
	records := map[string]*record{}
	for _, g := range groups {
		now, err := g.decide(low, high)
		if err != nil {
			fail(g, &unsent{err})
			continue
		}
		i := len(q.decided)
		q.decided = append(q.decided, g)
		q.at = max(q.at, now)
		mixed := g.isMixed()
		for id, r := range g.records {
			if r.group = i; mixed && r.newVersion == untouched {
				r.newVersion = g.hold(id)
			}
			records[id] = r
			q.ids = append(q.ids, id)
		}
	}
	slices.Sort(q.ids)
	for _, id := range q.ids {
		r := records[id]
		q.groups = append(q.groups, int32(r.group+1))
		q.olds = append(q.olds, r.version)
		q.news = append(q.news, r.newVersion)
		q.ends = append(q.ends, int32(min(r.newEnds, math.MaxInt32)))
		q.states = append(q.states, r.newState)
	}
	return q
}

// The versions that are no versions: see sql/swap.sql.
const (
	untouched  = 0
	heldByMany = -1
	heldByOne  = -2
)

// isMixed reports whether some of a group's records are written, and some only read. The latter
// have to stay as they are until the former are written: otherwise two groups could each miss
// what the other has written, and a third could see one of them without the other.
func (g *group) isMixed() bool {
	reads, writes := false, false
	for _, r := range g.records {
		reads, writes = reads || r.newVersion == untouched, writes || r.newVersion != untouched
	}
	return reads && writes
}

// hold returns how a record that a mixed group reads is kept as it is. A penalty is kept by its
// bucket, which every call has that has the penalty: who writes a penalty holds its bucket
// alone. So the penalties of clients that are not blocked, which are not there, cost nothing.
func (g *group) hold(id string) int64 {
	switch r := g.records[id]; r.kind {
	case penaltyRecord:
		return untouched
	case bucketRecord:
		if p := g.records[penaltyOf(id)]; p != nil && p.newVersion > 0 {
			return heldByOne
		}
	}
	return heldByMany
}

func (s *Store) swapArgs(ctx context.Context, q *request) []any {
	before := q.low + max(timeLeft(ctx).Microseconds(), 0)
	return []any{q.at, before, patience(ctx, 2), s.setClock(), q.groups, bytesOf(q.ids), q.olds, q.news, q.ends, q.states}
}

// timeLeft returns how long the callers of a flight wait. Its context lasts for the grace longer.
func timeLeft(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) - grace
}

// patience returns a part of the time that is left, in milliseconds. A server that waits for
// less than the whole can still answer.
func patience(ctx context.Context, part int64) int64 {
	left := timeLeft(ctx)
	answering := max(5*time.Millisecond, left/8)
	return max((left-answering).Milliseconds()/part, 1)
}

func bytesOf(ids []string) [][]byte {
	b := make([][]byte, len(ids))
	for i := range ids {
		b[i] = []byte(ids[i])
	}
	return b
}

func (g *group) ids() []string {
	ids := make([]string, 0, len(g.records))
	for id := range g.records {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// mostTurns bounds the advisory locks of a transaction: the server has some thousands for all.
const mostTurns = 16

// turnsOf returns the advisory locks for records, in ascending order.
func turnsOf(ids []string) []int32 {
	turns := make([]int32, 0, mostTurns)
	for _, id := range ids[:min(len(ids), mostTurns)] {
		turns = append(turns, hash32(id))
	}
	slices.Sort(turns)
	return slices.Compact(turns)
}

func hash32(s string) int32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return int32(h.Sum32())
}

// answer is what pgstore_swap returns.
type answer struct {
	clock          int64
	late           bool
	failed, locked []int32
	places         []int32
	versions       []int64
	states         [][]byte
	request        *request
}

func (a *answer) scan(row pgx.Row) error {
	return row.Scan(&a.clock, &a.late, &a.failed, &a.locked, &a.places, &a.versions, &a.states)
}

// sort tells the groups that were written from those that were not. It sets the records of
// the latter to what is there.
func (a *answer) sort() (won, lost []*group) {
	groups := a.request.decided
	if len(a.failed) == 0 {
		return groups, nil
	}
	for i, g := range groups {
		number := int32(i + 1)
		if !slices.Contains(a.failed, number) {
			won = append(won, g)
			continue
		}
		g.losses++
		g.locked = slices.Contains(a.locked, number)
		lost = append(lost, g)
	}
	for i, place := range a.places {
		r := groups[a.request.groups[place-1]-1].records[a.request.ids[place-1]]
		r.version, r.state = a.versions[i], a.states[i]
	}
	return won, lost
}

// time returns bounds of the server's time. It asks the server if they are not known.
func (s *Store) time(ctx context.Context, conn *pgxpool.Conn) (low, high int64, err error) {
	if s.now != nil {
		now := s.now()
		return now, now, nil
	}
	low, high, known := s.clock.read()
	if known {
		return low, high, nil
	}
	var clock int64
	sent := monotonic()
	if err := conn.QueryRow(ctx, s.sql.clock).Scan(&clock); err != nil {
		return 0, 0, &unsent{err}
	}
	s.learn(clock, sent, false)
	low, high, _ = s.clock.read()
	return low, high, nil
}

// learn notes what an answer, which has just come, says about the server's clock.
func (s *Store) learn(clock int64, sent time.Duration, wrong bool) {
	if s.now != nil {
		return
	}
	if wrong {
		s.clock.forget()
	}
	s.clock.learn(clock, sent, monotonic())
}

// setClock returns the clock of tests, or NULL for the server's.
func (s *Store) setClock() any {
	if s.now == nil {
		return nil
	}
	return s.now()
}

// isLocked reports whether a wait for another transaction took too long.
func isLocked(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}
