package redisstore

// Choices: checks of which one is charged, the first that fits. The script picks it where all of a choice are in one hash
// slot, and the owner of the job picks the same one from the answers; see script/lua/choice.lua. Alternatives in several
// slots are asked in turn: each attempt is all or nothing, as any request, and the next one is made only if no more than the
// alternative has denied it. So what comes first can have room again by the time that the second pays, if it gets some between the two.

import (
	"context"
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// readChoices is readAnswer for checks with alternatives. Such a job has no equals, since it is not mergeable.
func (j *job) readChoices(checks []store.Check, results []store.Result) {
	var few [8]found // not on the heap
	all := few[:]
	if len(checks) > len(few) {
		all = make([]found, len(checks))
	}
	all = all[:len(checks)]
	granted := 1
	for i, a := range j.answers(checks) {
		of := i.request()
		check := &checks[of]
		unknown := i.check >= 0 && j.isUnknown(a, check)
		switch {
		case i.check >= 0 && counting.InChoice(checks, of):
			if unknown {
				granted, j.final = 0, true
			}
		case !check.Shadow || unknown:
			granted = min(granted, j.fits(a, check, i.at))
		}
		if i.check >= 0 {
			all[of] = found{answer: a, here: true, fits: a.Fits(), blocked: j.bars.For(i.at) > 0}
		}
	}
	for start, end := 0, 0; start < len(checks); start = end {
		if end = counting.EndOfChoice(checks, start); end > start+1 && !j.pick(checks[start:end], all[start:end]) && !checks[start].Shadow {
			granted = 0
		}
	}
	if j.judgeOnly {
		granted = 0
	}
	j.granted = j.Op == take && granted > 0
	for i := range all {
		if !all[i].here {
			continue
		}
		charged := granted
		if all[i].passedOver {
			charged = 0
		}
		blocked := j.blockedFor(checks, i)
		j.result(all[i].answer, &checks[i], charged, blocked, &results[i])
		results[i].Repeated = results[i].Repeated && !all[i].passedOver
		if !all[i].settled {
			j.soften(all[i].answer, &checks[i], blocked, &results[i])
		}
	}
	counting.PassOver(checks, results)
}

// found is what an answer says of one of several checks.
type found struct {
	answer     script.Answer
	fits       int
	here       bool // the check is one of the job's
	blocked    bool // its key is blocked by hand
	passedOver bool // it has alternatives, and is not the one that is charged
	settled    bool // it has alternatives, and what may be given back in a moment would change nothing
}

// pick finds which check of a choice is charged, as the script does, and reports whether there is one. If not, it notes the
// denial.
func (j *job) pick(checks []store.Check, all []found) bool {
	paying, blocked, tentative := -1, false, false
	for i := range all {
		f := &all[i]
		f.passedOver = true
		if !f.here { // in another slot, for a peek
			continue
		}
		blocked = blocked || f.blocked
		if f.fits > 0 && (paying < 0 || f.fits == script.Repeated && all[paying].fits != script.Repeated) {
			paying = i
		}
		tentative = tentative || f.fits == 0 && j.isTentative(f.answer, &checks[i])
	}
	for i := range all {
		all[i].settled = blocked || paying >= 0
	}
	switch {
	case paying >= 0 && !blocked:
		all[paying].passedOver = false
		if j.Op == take && j.payers != nil {
			j.payers.note(checks, paying)
		}
		return true
	case checks[0].Shadow:
	case tentative && !blocked:
		j.tentative = true
	default:
		j.final = true
	}
	return false
}

// payers holds which of a choice was charged the last time, by a hash of its first check. Choices whose hashes collide share
// an entry, and then the script has more to do.
type payers [4096]atomic.Uint32

// of returns which of the checks was charged the last time. A nil p knows nothing.
func (p *payers) of(checks []store.Check) uint8 {
	if p == nil {
		return 0
	}
	return uint8(min(p.entry(checks).Load(), uint32(len(checks)-1)))
}

// note notes which of the checks is charged.
func (p *payers) note(checks []store.Check, paying int) {
	if e := p.entry(checks); e.Load() != uint32(paying) { // a read is cheaper than a write that all processors see
		e.Store(uint32(paying))
	}
}

func (p *payers) entry(checks []store.Check) *atomic.Uint32 {
	return &p[(maphash.Bytes(hashSeed, checks[0].Key)^checks[0].Rule.ID())%uint64(len(p))]
}

// spansSlots reports whether alternatives are in several slots.
func (s *Store) spansSlots(checks []store.Check) bool {
	for i := range checks {
		if checks[i].Or && s.route.slot(s.prefix, checks[i].Key) != s.route.slot(s.prefix, checks[i-1].Key) {
			return true
		}
	}
	return false
}

// takeInTurn is decide for a request whose alternatives are in several slots.
func (s *Store) takeInTurn(ctx context.Context, checks []store.Check, results []store.Result) error {
	t, err := s.turnsOf(ctx, checks)
	if err != nil {
		return err
	}
	for {
		t.collect(checks)
		if err := s.decide(ctx, t.checks, t.results); err != nil {
			return err
		}
		t.spread(results)
		if !t.advance(checks, results) {
			counting.PassOver(checks, results)
			return nil
		}
	}
}

// turns says which alternative is asked in each choice.
type turns struct {
	at      []int // by the first check of a choice, or a check without alternatives: which one is asked; -1 for others
	checks  []store.Check
	results []store.Result
	which   []int // which of the request's checks these are
}

// turnsOf begins with the first alternative of each choice, or the one that was charged for a repeated operation. In shadow mode
// it is the first that fits: nothing is denied there, so there is no second turn, which would charge the other checks again.
func (s *Store) turnsOf(ctx context.Context, checks []store.Check) (*turns, error) {
	t := &turns{at: make([]int, len(checks))}
	for i := range checks {
		if t.at[i] = i; checks[i].Or {
			t.at[i] = -1
		}
	}
	if !anyOnce(checks) && !slices.ContainsFunc(checks, func(c store.Check) bool { return c.Or && c.Shadow }) {
		return t, nil
	}
	alone, results := slices.Clone(checks), make([]store.Result, len(checks))
	for i := range alone {
		alone[i].Or = false
	}
	if err := s.Peek(ctx, alone, results); err != nil {
		return nil, err
	}
	for start, end := 0, 0; start < len(checks); start = end {
		end = counting.EndOfChoice(checks, start)
		i := slices.IndexFunc(results[start:end], func(r store.Result) bool { return r.Repeated })
		if i < 0 && checks[start].Shadow {
			i = slices.IndexFunc(results[start:end], func(r store.Result) bool { return r.Allowed })
		}
		if i >= 0 {
			t.at[start] = start + i
		}
	}
	return t, nil
}

// collect sets what is asked now.
func (t *turns) collect(checks []store.Check) {
	t.checks, t.which = t.checks[:0], t.which[:0]
	for _, i := range t.at {
		if i >= 0 {
			c := checks[i]
			c.Or = false
			t.checks, t.which = append(t.checks, c), append(t.which, i)
		}
	}
	t.results = append(t.results[:0], make([]store.Result, len(t.checks))...)
}

// spread gives the caller what was answered.
func (t *turns) spread(results []store.Result) {
	for n, i := range t.which {
		results[i] = t.results[n]
	}
}

// advance goes on to the next alternatives after a denial, and reports false if the request is decided: it is granted, or
// denied by what has no other alternative.
func (t *turns) advance(checks []store.Check, results []store.Result) bool {
	next := slices.Clone(t.at)
	denied := false
	for start, i := range t.at {
		switch {
		case i < 0 || results[i].Allowed || results[i].Unknown || checks[i].Shadow:
			continue
		case results[i].Blocked || i+1 == counting.EndOfChoice(checks, start):
			return false
		}
		next[start], denied = i+1, true
	}
	t.at = next
	return denied
}
