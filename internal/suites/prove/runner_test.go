package prove

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// job is what one process does for a history.
type job struct {
	Seed    uint64
	Name    string // what the history's keys begin with
	Process int
	Threads int
	Each    int // operations of a thread
	Limits  []limit
	Clients int
	Keys    int   // of a client
	Pause   int64 // between operations, up to so many microseconds

	Patience int64 // of an operation, in microseconds
	First    int   // operation.ID of the first operation
	Most     int   // checks of an operation
	Ahead    int64 // of the server's clock
	Spread   bool  // keys are in slots of their own, and all requests are about all of them
	Repeat   bool  // by a store that repeats denials
	InRegion bool  `json:",omitempty"` // by the stores of a region; set by the runner
	Backoff  int64 // how long a thread pauses after an error, in microseconds: its clients are told to come back later
}

const keysOf = 2 // a client and its tenant, say

// key returns a key of a client. On a Cluster its keys share a slot.
func (j *job) key(client, key int) []byte {
	if j.Spread {
		return fmt.Appendf(nil, "%s:%d:%d", j.Name, client, key)
	}
	return fmt.Appendf(nil, "{%s:%d}:%d", j.Name, client, key)
}

// runner runs jobs on a store.
type runner struct {
	store     store.Store
	repeating store.Store        // the same, but it repeats denials
	ear       *ear               // of that one
	place     *place             // where both stores are those of a region
	note      func(o *operation) // is told of each operation when it begins and when it has ended
}

func (r *runner) run(j *job) error {
	rules := make([]*store.Rule, len(j.Limits))
	for i := range j.Limits {
		var err error
		if rules[i], err = j.Limits[i].rule(); err != nil {
			return fmt.Errorf("%v: %w", &j.Limits[i], err)
		}
	}
	if j.InRegion = r.place != nil; j.InRegion {
		end, err := r.place.declare(rules, r.store, r.repeating)
		if err != nil {
			return err
		}
		defer end()
	}
	s := r.store
	if j.Repeat {
		s = r.repeating
		r.ear.send() // or nothing would be known of the first operations
		var ear sync.WaitGroup
		done := make(chan struct{})
		ear.Go(func() { r.ear.listen(done) })
		defer ear.Wait()
		defer close(done)
	}
	var popular []request
	for p, i := (&thread{job: j, rand: rand.New(rand.NewPCG(j.Seed, 71))}), 0; i < 2*j.Clients; i++ {
		popular = append(popular, request{i / 2, p.checks(take)})
	}
	var all sync.WaitGroup
	for n := range j.Threads {
		t := &thread{runner: r, store: s, popular: popular, job: j, rules: rules, number: n, rand: rand.New(rand.NewPCG(j.Seed, uint64(j.Process*j.Threads+n)))}
		all.Go(func() {
			for i := range j.Each {
				t.step(j.First + n*j.Each + i)
			}
		})
	}
	all.Wait()
	return nil
}

type thread struct {
	*runner
	*job
	store   store.Store
	rules   []*store.Rule
	number  int
	rand    *rand.Rand
	charges []charged
	denied  *operation // the last take that was denied for a moment
	last    *operation // the last take that was denied
	popular []request  // what all processes ask for again and again
}

// request is what a client asks for.
type request struct {
	client int
	checks []check
}

// charged is a charge that the thread can give back.
type charged struct {
	client  int
	checks  []check
	results []store.Result
}

// step makes one operation.
func (t *thread) step(id int) {
	if t.Pause > 0 && t.rand.IntN(3) == 0 {
		time.Sleep(micros(t.rand.Int64N(t.Pause)))
	}
	o := &operation{ID: id, Process: t.Process, Thread: t.number, Ahead: t.Ahead, Client: t.rand.IntN(t.Clients)}
	if t.Spread {
		o.Kind = take
		cost := 1 + t.rand.Int64N(3)
		for i := range t.Limits {
			o.Checks = append(o.Checks, check{Key: i, Limit: i, Cost: cost})
		}
		t.do(o, nil)
		return
	}
	var given charged
	if d := t.denied; d != nil && t.rand.IntN(2) == 0 {
		o.Kind, o.Client, o.Checks = take, d.Client, d.Checks
		t.waitOut(d)
		t.do(o, nil)
		return
	}
	if t.Repeat && t.rand.IntN(2) == 0 {
		again := pick(t.rand, t.popular...)
		if t.last != nil && t.rand.IntN(2) == 0 {
			again = request{t.last.Client, t.last.Checks}
		}
		o.Kind, o.Client, o.Checks = take, again.client, again.checks
		t.do(o, nil)
		return
	}
	switch n := t.rand.IntN(100); {
	case n < 58:
		o.Kind = take
	case n < 68:
		o.Kind = peek
	case n < 74:
		o.Kind = charge
	case n < 88:
		if o.Kind = take; len(t.charges) > 0 {
			i := t.rand.IntN(len(t.charges))
			given = t.charges[i]
			if o.Kind = refund; t.hasSlots(given) && t.rand.IntN(2) == 0 {
				o.Kind = renew
			} else {
				t.charges = append(t.charges[:i], t.charges[i+1:]...)
			}
			o.Client, o.Checks = given.client, given.checks
		}
	case n < 92:
		o.Kind = reset
	case n < 96:
		o.Kind = block
		o.Micros = 1 + t.rand.Int64N(pick[int64](t.rand, 10_000, 1_000_000))
	default:
		o.Kind = unblock
	}
	if o.Checks == nil && t.Repeat && t.rand.IntN(2) == 0 {
		popular := pick(t.rand, t.popular...)
		o.Client = popular.client
		o.Checks = slices.DeleteFunc(slices.Clone(popular.checks), func(c check) bool { return !t.can(o.Kind, c) })
	}
	if o.Checks == nil {
		o.Checks = t.checks(o.Kind)
	}
	if len(o.Checks) == 0 { // nothing can be blocked
		o.Kind, o.Micros = take, 0
		o.Checks = t.checks(take)
	}
	t.do(o, given.results)
}

// soon is what a thread waits for, in microseconds.
const soon = 3000

// waitOut waits until Retry-After of a denial has passed, almost: asking takes some time.
func (t *thread) waitOut(d *operation) {
	t.denied = nil
	until := d.Return + (d.retryAfter()-t.rand.Int64N(60))*1000
	for monotonic() < until {
		runtime.Gosched()
	}
}

// hasSlots reports whether a charge took slots.
func (t *thread) hasSlots(c charged) bool {
	for i := range c.checks {
		if c.results[i].Charged && t.Limits[c.checks[i].Limit].Algorithm == concurrency && c.checks[i].Cost > 0 {
			return true
		}
	}
	return false
}

// checks returns what an operation asks for.
func (t *thread) checks(k kind) (checks []check) {
	most := 1 + t.rand.IntN(t.Most)
	for _, n := range t.rand.Perm(t.Keys * len(t.Limits)) {
		c := check{Key: n / len(t.Limits), Limit: n % len(t.Limits)}
		l := &t.Limits[c.Limit]
		if len(checks) == most || !t.can(k, c) {
			continue
		}
		if c.Cost = pick[int64](t.rand, 1, 1, 1, 1, 2, 3, l.holds(), l.holds()+1, 0); k == take || k == peek {
			c.Shadow = t.rand.IntN(10) == 0
			if l.Divided {
				c.Part = 1 + t.rand.IntN(partsOf)
			}
			if before := len(checks) - 1; before >= 0 && t.isChoosable(c) && t.isChoosable(checks[before]) && t.rand.IntN(2) == 0 {
				c.Or, c.Shadow = true, checks[before].Shadow
			}
		}
		checks = append(checks, c)
	}
	return checks
}

// isChoosable reports whether a check can have alternatives. A limit with a penalty can't. Concurrency limits know no
// certain wait, so nobody can say which of several denials ends first, and neither can a store that repeats denials. Regions
// decide some limits at home, and keys in several slots are asked in turn.
func (t *thread) isChoosable(c check) bool {
	l := &t.Limits[c.Limit]
	return l.After == 0 && !l.Divided && l.Algorithm != concurrency && !t.Repeat && !t.Spread && !t.InRegion
}

// can reports whether an operation of a kind can have a check: only limits with a penalty have blocks.
func (t *thread) can(k kind, c check) bool {
	return k != block && k != unblock || t.Limits[c.Limit].After > 0
}

// do makes an operation and notes what became of it.
func (t *thread) do(o *operation, before []store.Result) {
	checks := make([]store.Check, len(o.Checks))
	for i, c := range o.Checks {
		checks[i] = store.Check{Key: t.key(o.Client, c.Key), Rule: t.rules[c.Limit], Cost: c.Cost, Shadow: c.Shadow, Or: c.Or}
		if c.Part > 0 {
			checks[i].Share = t.Limits[c.Limit].share(c.Part)
		}
	}
	results := make([]store.Result, len(checks))
	if before != nil {
		copy(results, before)
		o.Before = resultsOf(before)
	}
	ctx, cancel := context.WithTimeout(context.Background(), micros(t.Patience))
	defer cancel()
	if t.Repeat {
		o.Heard = t.ear.heard.Load()
	}
	o.Call = monotonic()
	t.note(o)
	var err error
	answered := true
	switch o.Kind {
	case take:
		err = t.store.Take(ctx, checks, results)
	case peek:
		err = t.store.Peek(ctx, checks, results)
	case charge:
		err = t.store.Charge(ctx, checks, results)
	case refund:
		err = t.store.Refund(ctx, checks, results)
	case renew:
		err = t.store.Renew(ctx, checks, results)
	case reset:
		err, answered = t.store.Reset(ctx, checks), false
	case block:
		err, answered = t.store.Block(ctx, checks, micros(o.Micros)), false
	case unblock:
		err, answered = t.store.Unblock(ctx, checks), false
	}
	o.Return, o.Ended = monotonic(), true
	switch {
	case err != nil:
		o.Err, o.Undone = err.Error(), isUndone(err, len(checks))
	case answered:
		o.Results = resultsOf(results)
	}
	t.note(o)
	if err != nil && t.Backoff > 0 {
		time.Sleep(micros(t.rand.Int64N(t.Backoff)))
	}
	t.keep(o, results)
}

// keep keeps what can be given back later.
func (t *thread) keep(o *operation, results []store.Result) {
	if o.Err != "" || o.Kind != take && o.Kind != renew {
		return
	}
	if o.Kind == take && slices.ContainsFunc(o.Results, func(r result) bool { return !r.Allowed }) {
		t.last = o
		if retry := o.retryAfter(); retry > 0 && retry < soon {
			t.denied = o
		}
	}
	if o.Kind == renew { // its slots have another name now
		for i := range t.charges {
			if t.charges[i].client == o.Client && &t.charges[i].checks[0] == &o.Checks[0] {
				t.charges[i].results = results
			}
		}
		return
	}
	some := false
	for i := range o.Checks {
		if !t.Limits[o.Checks[i].Limit].refundable() {
			return
		}
		some = some || results[i].Charged
	}
	if some {
		t.charges = append(t.charges, charged{o.Client, o.Checks, results})
	}
}

// isUndone reports whether an error says that nothing was done.
func isUndone(err error, checks int) bool {
	var undone *store.Undone
	if errors.As(err, &undone) {
		return len(undone.Checks) == checks
	}
	class := store.ErrorOf(err).Class
	return class == store.ClassOpen || class == store.ClassOverload
}

func resultsOf(from []store.Result) []result {
	to := make([]result, len(from))
	for i, r := range from {
		to[i] = result{
			Allowed: r.Allowed, Charged: r.Charged, Blocked: r.Blocked, Cached: r.Cached, PassedOver: r.PassedOver, Remaining: r.Remaining, At: r.At,
			RetryAfter: r.RetryAfter.Microseconds(), Window: r.Window.Microseconds(), ResetAfter: r.ResetAfter.Microseconds(), Turn: r.Turn.Microseconds(),
			Forgiven: r.Forgiven, Standing: uint8(r.Standing),
		}
	}
	return to
}
