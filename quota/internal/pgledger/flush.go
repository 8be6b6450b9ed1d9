package pgledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weblimit/weblimit/core/store"
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

// write writes positions, and sets their outcomes.
func (l *Ledger) write(ctx context.Context, tx pgx.Tx, positions []ledger.Position) error {
	order := make([]int, len(positions))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return comparePositions(&positions[i], &positions[j]) })
	var states stateColumns
	var of []int  // of states, where in order the last of their positions is
	highest := -1 // of the present generation
	for n, i := range order {
		p := &positions[i]
		p.Outcome = ledger.Written
		if highest < 0 || p.Position > positions[highest].Position {
			highest = i
		}
		if n+1 < len(order) { // no statement may write a row twice
			next := &positions[order[n+1]]
			if next.Account == p.Account && next.Generation() == p.Generation() {
				continue
			}
		}
		states.add(&positions[highest])
		of = append(of, n)
		highest = -1
	}
	var begun, unknown accountColumns
	var generations []int64
	var batch pgx.Batch
	batch.Queue(l.text.states, states.limits, states.keys, states.starts, states.ends, states.generations, states.positions, states.used, states.at)
	batch.Queue(l.text.behind, states.limits, states.keys, states.starts, states.ends, states.generations, states.positions, states.used).Query(func(rows pgx.Rows) error {
		var n, base int64
		var known ledger.Life
		_, err := pgx.ForEachRow(rows, []any{&n, &known.Closed, &known.Position, &known.Used, &known.At, &base}, func() error {
			first, last := 0, of[n-1]
			if n > 1 {
				first = of[n-2] + 1
			}
			for _, i := range order[first : last+1] {
				positions[i].Outcome = known.Judge(&positions[i])
			}
			if p := &positions[order[last]]; base < 0 && p.Generation() == store.FirstGeneration {
				begun.add(&p.Account)
			} else if base < 0 {
				unknown.add(&p.Account)
				generations = append(generations, p.Generation())
			}
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	if len(begun.keys) > 0 {
		if _, err := tx.Exec(ctx, l.text.begun, begun.limits, begun.keys, begun.starts, begun.ends); err != nil {
			return err
		}
	}
	if err := l.adopt(ctx, tx, &unknown, generations); err != nil {
		return err
	}
	return l.writeRest(ctx, tx, positions, order)
}

// writeRest writes the days and notices of positions, in order, whose outcomes are set.
func (l *Ledger) writeRest(ctx context.Context, tx pgx.Tx, positions []ledger.Position, order []int) error {
	var days stateColumns
	for n, i := range order {
		p := &positions[i]
		if n+1 < len(order) { // no statement may write a row twice
			next := &positions[order[n+1]]
			if next.Account == p.Account && next.Generation() == p.Generation() && next.Date == p.Date {
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
