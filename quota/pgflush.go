package quota

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weblimit/weblimit/core/store"
)

// accountColumns are accounts as arrays, of which one statement makes rows.
type accountColumns struct {
	limits, keys []string
	starts, ends []time.Time
}

func (c *accountColumns) add(a *account) {
	c.limits, c.keys = append(c.limits, a.limit), append(c.keys, a.key)
	c.starts, c.ends = append(c.starts, timeOf(a.start)), append(c.ends, timeOf(a.end))
}

// stateColumns are positions as arrays.
type stateColumns struct {
	accountColumns
	generations, positions, used []int64
	at                           []time.Time
	days                         []time.Time
}

func (c *stateColumns) add(p *position) {
	c.accountColumns.add(&p.account)
	c.generations, c.positions = append(c.generations, p.generation()), append(c.positions, p.position)
	c.used, c.at, c.days = append(c.used, p.used), append(c.at, timeOf(p.at)), append(c.days, dateOf(p.date))
}

func (l *pgLedger) flush(ctx context.Context, positions []position) error {
	if len(positions) == 0 {
		return nil
	}
	starts := func(yield func(int64) bool) {
		for i := range positions {
			if !yield(positions[i].start) {
				return
			}
		}
	}
	return l.again(ctx, starts, func() error {
		return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error { return l.write(ctx, tx, positions) })
	})
}

// write writes positions, and sets their outcomes.
func (l *pgLedger) write(ctx context.Context, tx pgx.Tx, positions []position) error {
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
		p.outcome = written
		if highest < 0 || p.position > positions[highest].position {
			highest = i
		}
		if n+1 < len(order) { // no statement may write a row twice
			next := &positions[order[n+1]]
			if next.account == p.account && next.generation() == p.generation() {
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
		var known life
		_, err := pgx.ForEachRow(rows, []any{&n, &known.closed, &known.position, &known.used, &known.at, &base}, func() error {
			first, last := 0, of[n-1]
			if n > 1 {
				first = of[n-2] + 1
			}
			for _, i := range order[first : last+1] {
				positions[i].outcome = known.judge(&positions[i])
			}
			if p := &positions[order[last]]; base < 0 && p.generation() == store.FirstGeneration {
				begun.add(&p.account)
			} else if base < 0 {
				unknown.add(&p.account)
				generations = append(generations, p.generation())
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
func (l *pgLedger) writeRest(ctx context.Context, tx pgx.Tx, positions []position, order []int) error {
	var days stateColumns
	for n, i := range order {
		p := &positions[i]
		if n+1 < len(order) { // no statement may write a row twice
			next := &positions[order[n+1]]
			if next.account == p.account && next.generation() == p.generation() && next.date == p.date {
				continue
			}
		}
		if p.outcome == written {
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
func (l *pgLedger) adopt(ctx context.Context, tx pgx.Tx, c *accountColumns, generations []int64) error {
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
func (l *pgLedger) queueNotices(batch *pgx.Batch, positions []position) {
	var c accountColumns
	var levels []int32
	var used, included, hard []int64
	var at []time.Time
	for i := range positions {
		p := &positions[i]
		for level := range levelsIn(p.levels) {
			c.add(&p.account)
			levels = append(levels, int32(l.levels[level]))
			used, included, hard = append(used, p.used), append(included, p.included), append(hard, p.hard)
			at = append(at, timeOf(p.at))
		}
	}
	if len(levels) > 0 {
		batch.Queue(l.text.notices, c.limits, c.keys, c.starts, c.ends, levels, used, included, hard, at)
	}
}

// comparePositions orders positions by account, generation, day and position.
func comparePositions(a, b *position) int {
	if n := compareAccounts(&a.account, &b.account); n != 0 {
		return n
	}
	return cmp.Or(cmp.Compare(a.generation(), b.generation()), cmp.Compare(a.date, b.date), cmp.Compare(a.position, b.position))
}
