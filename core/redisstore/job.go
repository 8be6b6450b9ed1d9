package redisstore

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
)

// operation is what the script is asked to do.
type operation = script.Op

const (
	take   = script.Take
	peek   = script.Peek
	charge = script.Charge
	refund = script.Refund
	reset  = script.Reset
	renew  = script.Renew
)

// part is what a request asks of one slot: one group of the script. Its owner
// makes it, puts it on its way with a node, and reads the answer once it has
// landed. Until then others may read it, even after the owner has given up:
// then it is not used again.
type part struct {
	script.Group
	slot int
	logs *logs // of the store
	work int   // entries of logs that the script has to read, by estimate

	hash   uint64 // of all of it, for parts that can be decided together
	equal  bool   // it can be decided together with equal ones
	guards bool   // there are penalties in it that say what comes of checks
	judges bool   // it charges nothing, whatever fits: see judge
	holds  bool   // a take that leaves holds beside its charges: see hold
	leads  bool   // its owner waits for nothing else, and can lead a flight
	asking bool   // the slot is on its way to the node

	state  atomic.Int32
	landed chan struct{} // gets one signal when state is landed or leading
	timer  *time.Timer   // of the owner's wait
	flight *flight       // to be led by the owner

	// The answer, written by the flight before it lands.
	at    int64  // when it was decided: microseconds since the epoch
	reply string // what the script says of the group
	of    int    // its group in the flight
	nth   int    // how many equal parts were decided before this one
	err   error

	// What the owner has read in it.
	granted   bool // its checks were charged, as far as they are to be
	settled   bool // an enforced check does not fit
	unsettled bool // one does not fit that may in a moment: see isUnsettled
}

// A part is queued, and then taken along by a flight, or made to lead one. When
// its owner gives up before, it is abandoned.
const (
	idle int32 = iota
	queued
	flying
	leading
	landed
	abandoned
)

var parts = sync.Pool{New: func() any {
	return &part{landed: make(chan struct{}, 1)}
}}

var hashSeed = maphash.MakeSeed()

func newPart(op operation, slot int) *part {
	p := parts.Get().(*part)
	p.Begin(op)
	p.slot, p.leads, p.equal = slot, true, op == take || op == peek
	p.guards, p.judges, p.holds = false, false, false
	p.logs, p.work = nil, 0
	p.granted, p.settled, p.unsettled = false, false, false
	return p
}

// release gives the part back for reuse, unless its owner gave up: then a flight
// may still have it.
func (p *part) release() {
	if p.state.Load() == abandoned {
		return
	}
	p.state.Store(idle)
	p.Forget()
	p.asking, p.reply, p.nth, p.err, p.flight = false, "", 0, nil, nil
	parts.Put(p)
}

// again prepares the part to be sent once more, by its owner.
func (p *part) again(asking bool) {
	p.state.Store(idle)
	p.asking, p.leads = asking, true
	p.reply, p.err, p.flight = "", nil, nil
}

// add adds a check of the request, and its penalty if the operation is about that,
// too; charged is when it was charged, for a refund or renewal. A check that can
// have a mark has been given it before, by remember.
func (p *part) add(index int, check *store.Check, charged int64) {
	p.Add(index, check, charged)
	p.equal = p.equal && check.Rule.Algorithm != store.SlidingLog // whose reading does not tell what the next one sees
	if p.logs != nil && isLog(check.Rule) {
		p.work += p.logs.longest(check.Rule)
	}
	if check.Rule.Penalized() {
		p.guard(index, check)
	}
}

// remember adds the mark of a check with Once. All marks come before all checks.
func (p *part) remember(index int, check *store.Check, charged int64) {
	p.AddMark(index, check, charged)
	p.equal = false // of several equal parts only the first is charged
}

// guard adds the penalty of a check, unless the operation leaves it as it is.
func (p *part) guard(index int, check *store.Check) {
	switch p.Op {
	case take, peek:
		if check.Cost == 0 {
			return // it neither counts nor is blocked
		}
		p.guards, p.equal = true, false // equal ones would not see each other's denials
		p.GuardChecks()
	case reset:
	default:
		return
	}
	p.AddPenalty(index, check, check.Rule.Block.For)
}

// seal adds the keys. From then on the part needs nothing of the request.
func (p *part) seal(prefix string) {
	p.Seal(prefix)
	if p.equal {
		p.hash = maphash.Bytes(hashSeed, p.Bytes())
	}
}

// same reports whether q asks for the same.
func (p *part) same(q *part) bool {
	return p.hash == q.hash && bytes.Equal(p.Bytes(), q.Bytes())
}

// answer fills in the results of the part's checks.
func (p *part) answer(checks []store.Check, results []store.Result) error {
	if err := p.CheckLength(p.reply); err != nil {
		return &store.Error{Class: store.ClassUnknown, Err: err}
	}
	if p.guards {
		p.answerGuarded(checks, results)
		return nil
	}
	granted := int(^uint(0) >> 1) // how many equal parts were
	var a script.Answer
	left := p.reply
	for _, i := range p.Checks {
		if a, left = p.Cut(left, i, checks); i != script.Hold && !checks[i].Shadow {
			granted = min(granted, p.fit(a, &checks[i]))
		}
	}
	if p.judges {
		granted = 0
	}
	p.granted = p.Op == take && p.nth < granted
	left = p.reply
	for _, i := range p.Checks {
		if a, left = p.Cut(left, i, checks); i != script.Hold {
			results[i] = p.result(a, &checks[i], granted, 0)
		}
	}
	return nil
}

// result reads the script's answer to a check: how many equal parts it fits by
// itself, and its reading; blocked is for how many microseconds its key is blocked.
func (p *part) result(a script.Answer, check *store.Check, granted int, blocked int64) store.Result {
	rule, cost, fits := check.Rule, check.Cost, a.Fits()
	again := check.Once != nil && fits == script.Repeated && (p.Op == take || p.Op == peek)
	charged := p.Op == charge || p.Op == renew || !again && p.Op == take && p.nth < granted && p.nth < fits
	reading := store.Reading{At: p.at, Charged: charged, Blocked: blocked}
	numbers := a
	if charged {
		numbers = a.After(p.Op, rule.Algorithm)
	}
	for k := range script.Numbers(rule.Algorithm) {
		reading.Numbers[k] = numbers.Number(k)
	}
	if p.logs != nil && isLog(rule) {
		p.logs.read(rule, reading.Numbers[0])
	}
	switch {
	case again:
		result := rule.Result(0, reading)
		result.Repeated = result.Allowed // or a block holds
		return result
	case p.Op > peek:
		return rule.Result(0, reading)
	}
	if p.Op == take && rule.Algorithm != store.SlidingLog { // else the reading is what it is
		before := min(p.nth, granted, fits) // equal parts that were charged before
		if charged {
			before++
		}
		if cost > 0 && before > 0 {
			reading = rule.After(reading, int64(before)*cost)
			reading.Charged = charged
		}
	}
	result := rule.Result(cost, reading)
	if !result.Allowed && p.isUnsettled(a, check) {
		soon(&result)
	}
	return result
}
