package prove

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/weblimit/weblimit/core/store"
)

// state is what one limiter knows of one client: a bucket for each key and limit, the time of its last
// decision, and the operations that may happen yet or may never, because nobody was answered. States do
// not change.
type state struct {
	last    int64
	buckets []*bucket
	pending []*operation
}

// spec is what the model needs of a history.
type spec struct {
	limits []limit
	keys   int
	behind bool            // processes decide by times that are up to so much behind as an answer takes
	times  map[int][]int64 // by operation without an answer: when it may have happened, see timesOf

	slow, fast int64 // the server's clock is ahead of the test's by at least slow and at most fast
}

var fresh = new(bucket)

func (m *spec) init() []any {
	s := &state{buckets: make([]*bucket, m.keys*len(m.limits))}
	for i := range s.buckets {
		s.buckets[i] = fresh
	}
	return []any{s}
}

func (s *state) with(last int64) *state {
	return &state{last: last, buckets: slices.Clone(s.buckets), pending: s.pending}
}

func equal(a, b any) bool {
	x, y := a.(*state), b.(*state)
	return x == y || x.last == y.last && slices.Equal(x.pending, y.pending) &&
		slices.EqualFunc(x.buckets, y.buckets, (*bucket).equal)
}

var seed = maphash.MakeSeed()

func hash(a any) uint64 {
	s := a.(*state)
	h := maphash.Comparable(seed, s.last)
	for _, b := range s.buckets {
		h = h*31 + maphash.Comparable(seed, [...]int64{b.owed(), b.start, b.now, b.before, b.logged(), b.penalty.until, b.penalty.denials})
	}
	return h + uint64(len(s.pending))
}

// step returns the states in which a client can be after an operation: none if it can't have been
// answered as it was.
func (m *spec) step(from, input, _ any) []any {
	s, o := from.(*state), input.(*operation)
	switch {
	case o.Undone:
		return []any{s}
	case o.unknown():
		next := s.with(s.last)
		next.pending = append(slices.Clip(s.pending), o)
		return []any{next}
	case o.Kind == emptied: // and connections are gone
		return []any{&state{last: s.last, buckets: m.init()[0].(*state).buckets}}
	case o.Kind == clockTo:
		return m.setClock(s, o)
	case o.isRepeat():
		return m.repeat(s, o)
	}
	var all []any
	if len(o.Results) == 0 { // it happened at a time that nobody was told
		times := m.timesFor(s, o, math.MaxInt64)
		for _, p := range s.pending { // it can have come after what is pending
			times = append(times, m.timesFor(s, p, math.MaxInt64)...)
		}
		slices.Sort(times)
		for _, t := range slices.Compact(times) {
			for _, before := range m.happen(s, t) {
				all = append(all, m.apply(before, o, t, nil))
			}
		}
		return all
	}
	t := o.at()
	if t < s.last && !m.behind {
		return nil
	}
	for _, before := range m.happen(s, t) {
		got := make([]result, len(o.Checks))
		if after := m.apply(before, o, t, got); slices.EqualFunc(got, o.Results, same) {
			all = append(all, after)
		}
	}
	return all
}

// same compares what the model answers with what was answered. Of a hint only the sign is looked at, and of a limit that
// clients divide what does not depend on shares.
func same(want, got result) bool {
	got.Cached = false
	if want.divided { // what is left for the client depends on its share
		got.Remaining, got.RetryAfter, got.Window, got.Standing, got.divided = want.Remaining, want.RetryAfter, want.Window, want.Standing, true
	}
	if want.hint {
		if got.RetryAfter < want.RetryAfter {
			return false
		}
		got.RetryAfter, got.Window, got.hint = want.RetryAfter, want.Window, true
		if want.Blocked {
			got.ResetAfter = want.ResetAfter
		}
	}
	return want == got
}

// happen returns the state, and those after any of its pending operations happened by t.
func (m *spec) happen(s *state, t int64) []*state {
	all := []*state{s}
	for i, o := range s.pending {
		for _, at := range m.timesFor(s, o, t) {
			before := *s
			before.pending = slices.Delete(slices.Clone(s.pending), i, i+1)
			for _, next := range m.happen(m.apply(&before, o, at, nil), t) {
				if !slices.ContainsFunc(all, func(x *state) bool { return equal(x, next) }) {
					all = append(all, next)
				}
			}
		}
	}
	return all
}

// timesFor returns when an operation can have happened after s and by latest. Of all these times it
// returns those that differ: the first, the last, and those that answers give away.
func (m *spec) timesFor(s *state, o *operation, latest int64) []int64 {
	known := m.times[o.ID]
	first := s.last
	switch {
	case len(known) > 0 && m.behind:
		first = known[0]
	case len(known) > 0:
		first = max(first, known[0])
	}
	if first > latest {
		return nil
	}
	times := []int64{first}
	for _, t := range known {
		if t > first && t < latest {
			times = append(times, t)
		}
	}
	if latest < math.MaxInt64 && latest > first {
		times = append(times, latest)
	}
	return times
}

// apply returns the state after an operation at t, and writes what it is answered to results unless that is nil.
func (m *spec) apply(s *state, o *operation, t int64, results []result) *state {
	if results == nil {
		results = make([]result, len(o.Checks))
	}
	s = s.with(max(t, s.last))
	switch o.Kind {
	case take, peek:
		m.decide(s, o, t, results)
		return s
	}
	for i := range o.Checks {
		c := &o.Checks[i]
		l := &m.limits[c.Limit]
		cell := &s.buckets[c.cell(len(m.limits))]
		switch o.Kind {
		case reset:
			*cell = fresh
			continue
		case block:
			blocks := (*cell).penalty.broughtBack(l, t).at(l, t).blocks
			*cell = (*cell).with(penalty{began: t, until: t + o.Micros, blocks: blocks})
			continue
		case unblock:
			*cell = (*cell).with(penalty{})
			continue
		case refund, renew:
			if !o.Before[i].Charged || o.Kind == renew && l.Algorithm != concurrency {
				results[i] = o.Before[i]
				continue
			}
		}
		near, _ := (*cell).broughtBack(l, t, false)
		b, forgiven := near.at(l, t), int64(0)
		switch o.Kind {
		case charge:
			forgiven = b.chargeAnyway(l, t, c.Cost)
		case refund:
			b.refund(l, t, c.Cost, &o.Before[i])
		case renew:
			b.free(o.Before[i].At, c.Cost)
			b.charge(l, t, min(c.Cost, 2*l.Quota-b.logged()))
		}
		if was := near.at(l, t); b.equal(was) { // nothing is written
			*cell = near
		} else {
			*cell = b.with(near.penalty)
		}
		results[i] = b.answer(l, t, 0, o.Kind != refund)
		if results[i].Forgiven = forgiven; o.Kind == refund {
			results[i].Standing = o.Before[i].Standing
		}
	}
	return s
}

// decide decides checks together: all that are enforced are charged, or none is.
func (m *spec) decide(s *state, o *operation, t int64, results []result) {
	stored, opened := make([]*bucket, len(o.Checks)), make([]*bucket, len(o.Checks))
	fits := make([]bool, len(o.Checks))
	granted := o.Kind == take
	for i := range o.Checks {
		c := &o.Checks[i]
		l := &m.limits[c.Limit]
		cell := &s.buckets[c.cell(len(m.limits))]
		near, brought := (*cell).broughtBack(l, t, c.Cost > 0)
		if brought && o.Kind == take {
			*cell = near
		}
		stored[i], opened[i] = near, near.at(l, t)
		fits[i] = opened[i].fits(l, t, c.Cost, true)
		if l.Divided && c.Part > 0 && c.Cost > 0 && len(o.Results) > 0 {
			keeps := l.keeps(store.Standing(o.Results[i].Standing))
			fits[i] = c.Cost+keeps <= l.holds() && opened[i].fits(l, t, c.Cost+keeps, true)
		}
		if (!fits[i] || c.Cost > 0 && opened[i].penalty.until > t) && !c.Shadow && !o.isAlternative(i) {
			granted = false
		}
	}
	payers, paid := o.payers(fits)
	granted = granted && paid
	for i := range o.Checks {
		c, b := &o.Checks[i], opened[i]
		l := &m.limits[c.Limit]
		blocked := int64(0)
		if c.Cost > 0 {
			blocked = max(b.penalty.until-t, 0)
		}
		charged := granted && fits[i] && blocked == 0 && payers[i]
		cell := &s.buckets[c.cell(len(m.limits))]
		if charged {
			b.charge(l, t, c.Cost)
		}
		if charged && c.Cost > 0 {
			*cell = b.with(stored[i].penalty)
		}
		results[i] = b.answer(l, t, c.Cost, charged)
		if l.Divided && c.Part > 0 {
			results[i].Allowed, results[i].divided = charged || fits[i], true
		}
		if o.Kind == take && l.After > 0 && !fits[i] && blocked == 0 {
			p := b.penalty
			blocked = p.denied(l, t)
			*cell = stored[i].with(p)
		}
		if blocked > 0 {
			results[i] = results[i].blockedAnswer(l, blocked, c.Cost)
		}
	}
	o.passOver(results)
}

func (m *spec) describe(s *state) string {
	var all []string
	for i, b := range s.buckets {
		if b != fresh {
			all = append(all, fmt.Sprintf("k%d·%s %+v", i/len(m.limits), m.limits[i%len(m.limits)].Name, *b))
		}
	}
	return fmt.Sprintf("at %d: %s; %d may happen yet", s.last, strings.Join(all, ", "), len(s.pending))
}

// model returns the model for the checker.
func (m *spec) model() porcupine.Model {
	n := porcupine.NondeterministicModel{
		Init: m.init, Step: m.step, Equal: equal, Hash: hash,
		DescribeOperation: func(in, _ any) string { return in.(*operation).describe(m.limits) },
		DescribeState:     func(s any) string { return m.describe(s.(*state)) },
	}
	return n.ToModel()
}
