package pgledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

// accountColumns are accounts as arrays, of which one statement makes rows.
type accountColumns struct {
	limits, keys []string
	starts, ends []time.Time
}

func (c *accountColumns) add(a *ledger.Account) {
	c.limits, c.keys = append(c.limits, a.Limit), append(c.keys, a.Key)
	c.starts, c.ends = append(c.starts, micros.Time(a.Start)), append(c.ends, micros.Time(a.End))
}

// stateColumns are positions as arrays.
type stateColumns struct {
	accountColumns
	generations, positions, used []int64
	at                           []time.Time
	days                         []time.Time
}

func (c *stateColumns) add(p *ledger.Position) {
	c.accountColumns.add(&p.Account)
	c.generations, c.positions = append(c.generations, p.Generation()), append(c.positions, p.Position)
	c.used, c.at, c.days = append(c.used, p.Used), append(c.at, micros.Time(p.At)), append(c.days, micros.Date(p.Date))
}

// Flush implements [ledger.Ledger].
func (l *Ledger) Flush(ctx context.Context, positions []ledger.Position) error {
	if len(positions) == 0 {
		return nil
	}
	starts := func(yield func(int64) bool) {
		for i := range positions {
			if !yield(positions[i].Start) {
				return
			}
		}
	}
	return l.again(ctx, starts, func() error {
		return pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error { return l.write(ctx, tx, positions) })
	})
}

// writing is what one transaction writes.
type writing struct {
	positions []ledger.Position
	order     []int        // of positions: by account, generation, day and position
	states    stateColumns // the highest position of each generation, since no statement may write a row twice
	of        [][]int      // of the same generations, all positions

	// Generations that the ledger did not know: first ones, which stores begin, and later ones that it has lost.
	begun, unknown accountColumns
	generations    []int64 // of unknown
}

func newWriting(positions []ledger.Position) *writing {
	w := &writing{positions: positions, order: make([]int, len(positions))}
	for i := range positions {
		w.order[i] = i
		positions[i].Outcome = ledger.Written
	}
	slices.SortFunc(w.order, func(i, j int) int { return comparePositions(&positions[i], &positions[j]) })
	for rest := w.order; len(rest) > 0; {
		highest, n := &positions[rest[0]], 1
		for ; n < len(rest) && ofOneGeneration(&positions[rest[n]], highest); n++ {
			if p := &positions[rest[n]]; p.Position > highest.Position {
				highest = p
			}
		}
		w.states.add(highest)
		w.of = append(w.of, rest[:n])
		rest = rest[n:]
	}
	return w
}

func ofOneGeneration(a, b *ledger.Position) bool {
	return a.Account == b.Account && a.Generation() == b.Generation()
}

// judge reads what the ledger has of generations that were not written, or that it did not know.
func (w *writing) judge(rows pgx.Rows) error {
	var n, base int64
	var known ledger.Life
	_, err := pgx.ForEachRow(rows, []any{&n, &known.Closed, &known.Position, &known.Used, &known.At, &base}, func() error {
		for _, i := range w.of[n-1] {
			w.positions[i].Outcome = known.Judge(&w.positions[i])
		}
		if p := &w.positions[w.of[n-1][0]]; base < 0 && p.Generation() == counting.FirstGeneration {
			w.begun.add(&p.Account)
		} else if base < 0 {
			w.unknown.add(&p.Account)
			w.generations = append(w.generations, p.Generation())
		}
		return nil
	})
	return err
}

// write writes positions, and sets their outcomes. A generation that is new has a base of -1 until the end of the transaction,
// so nobody ever reads one.
func (l *Ledger) write(ctx context.Context, tx pgx.Tx, positions []ledger.Position) error {
	w := newWriting(positions)
	s := &w.states
	var batch pgx.Batch
	batch.Queue(l.text.states, s.limits, s.keys, s.starts, s.ends, s.generations, s.positions, s.used, s.at)
	batch.Queue(l.text.behind, s.limits, s.keys, s.starts, s.ends, s.generations, s.positions, s.used).Query(w.judge)
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	if len(w.begun.keys) > 0 {
		if _, err := tx.Exec(ctx, l.text.begun, w.begun.limits, w.begun.keys, w.begun.starts, w.begun.ends); err != nil {
			return err
		}
	}
	if err := l.adopt(ctx, tx, &w.unknown, w.generations); err != nil {
		return err
	}
	return l.writeRest(ctx, tx, positions, w.order)
}

// writeRest writes the days and notices of positions, in order, whose outcomes are set.
func (l *Ledger) writeRest(ctx context.Context, tx pgx.Tx, positions []ledger.Position, order []int) error {
	var days stateColumns
	for n, i := range order {
		p := &positions[i]
		if n+1 < len(order) { // no statement may write a row twice
			next := &positions[order[n+1]]
			if ofOneGeneration(next, p) && next.Date == p.Date {
				continue
			}
		}
		if p.Outcome == ledger.Written {
			days.add(p)
		}
	}
	var batch pgx.Batch
	if len(days.keys) > 0 {
		batch.Queue(l.text.days, days.limits, days.keys, days.starts, days.ends, days.generations, days.positions, days.used, days.days, days.at)
	}
	l.queueNotices(&batch, positions)
	if batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// adopt makes generations that the ledger has lost its own.
func (l *Ledger) adopt(ctx context.Context, tx pgx.Tx, c *accountColumns, generations []int64) error {
	// One after the other: the base of one depends on those before it, and this is rare.
	for i := range generations {
		args := []any{c.limits[i : i+1], c.keys[i : i+1], c.starts[i : i+1], c.ends[i : i+1], generations[i : i+1]}
		for _, text := range []string{l.text.unknown, l.text.known} {
			if _, err := tx.Exec(ctx, text, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// queueNotices adds the notices of positions to a batch.
func (l *Ledger) queueNotices(batch *pgx.Batch, positions []ledger.Position) {
	var c accountColumns
	var levels []int32
	var used, included, hard []int64
	var at []time.Time
	for i := range positions {
		p := &positions[i]
		for level := range ledger.LevelsIn(p.Levels) {
			c.add(&p.Account)
			levels = append(levels, int32(l.levels[level]))
			used, included, hard = append(used, p.Used), append(included, p.Included), append(hard, p.Hard)
			at = append(at, micros.Time(p.At))
		}
	}
	if len(levels) > 0 {
		batch.Queue(l.text.notices, c.limits, c.keys, c.starts, c.ends, levels, used, included, hard, at)
	}
}

// comparePositions orders positions by account, generation, day and position.
func comparePositions(a, b *ledger.Position) int {
	if n := ledger.Compare(&a.Account, &b.Account); n != 0 {
		return n
	}
	return cmp.Or(cmp.Compare(a.Generation(), b.Generation()), cmp.Compare(a.Date, b.Date), cmp.Compare(a.Position, b.Position))
}
