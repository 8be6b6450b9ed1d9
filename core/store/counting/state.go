package counting

import (
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// State is everything that a store keeps for one check. A store reads the states of all
// checks of a call, has a function of this package change them, and writes back those that
// have changed. It must do so as one step, for instance under a lock. There is a function
// for each method of [store.Store]: [Decide] for Take and Peek, [Charge], [Refund], [Renew],
// [Reset], [BlockKeys] and [UnblockKeys]; and [Restore] for [Restorer]. Blocks is a query.
//
// The zero State is that of a key that has used nothing. A State can be used again: set
// Bucket, Manual, Penalty if the rule has one, and Mark if the check has Once. A State is not safe
// for concurrent use.
type State struct {
	Bucket  Bucket      // of the check's key and rule
	Manual  ManualBlock // of the check's key and rule; hardly ever there is one
	Penalty Penalty     // of the check's key and rule, if the rule is Penalized
	Mark    Mark        // of the check's operation, if it has Once

	// Sharing is what belongs to the check's Share, if it has one: set it to records that were read, or to zero ones.
	Sharing *Sharing

	// History is the store's present one: see Account.History. Defaults to 0, for a store whose data is always the
	// latest, or that can't tell.
	History int64

	// The records to be written back. A bucket that is Unused, and a zero penalty or manual block, can be
	// removed instead; a zero mark must be removed. All records can be removed when they
	// expire.
	BucketChanged, ManualChanged, PenaltyChanged, MarkChanged bool

	reading                   Reading
	fits, converted, repeated bool
	exceeds                   bool  // the bucket is foreign and stays as it is: see Bucket.exceeds
	passedOver                bool  // another alternative is charged, or none is: see pick
	stale                     int64 // the position of a stale account while its bucket is set aside
}

// Decide decides checks together at a time in microseconds since the epoch: as Take of
// [store.Store] if take is set, as Peek otherwise. states[i] is the state of checks[i]. Call
// [Answer] for the results; by then the store may have released its lock.
func Decide(now int64, checks []store.Check, states []State, take bool) {
	granted, unknown, choices := true, false, false
	for i := range states {
		c, s := &checks[i], &states[i]
		s.unchanged()
		if c.Once != nil {
			s.Mark.open(c.Rule, now)
		}
		s.repeated = c.Once != nil && s.Mark.Expires > now && s.Mark.Repeats < c.Rule.Repeats
		s.Judge(c.Rule, s.cost(c), now, Offset(c.Rule, c.Key))
		if c.Rule.Divided {
			s.judgeShare(c, now)
		}
		if c.Rule.Algorithm == store.Ledger && c.Cost > 0 && s.reading.IsUnknown() {
			s.fits, s.repeated, unknown = false, false, true
		}
		if c.Rule.Penalized() && c.Cost > 0 {
			s.PenaltyChanged = s.judgePenalty(c, now) && take
		}
		if s.Manual.Until != 0 && c.Cost > 0 {
			s.ManualChanged = s.judgeManual(now) && take
		}
		if s.repeated && s.reading.Blocked > 0 && s.Mark.Expires <= now+s.reading.Blocked {
			// At the end of the block the operation is charged as a new one.
			s.repeated = false
			blocked := s.reading.Blocked
			s.read(c.Rule, now, c.Cost)
			if c.Rule.Divided {
				s.judgeShare(c, now)
			}
			s.fits, s.reading.Blocked = false, blocked
		}
		if InChoice(checks, i) {
			choices = true
			continue
		}
		granted = granted && (s.fits || c.Shadow)
	}
	if choices && !pickAll(checks, states) {
		granted = false
	}
	if !take {
		nobodyAsked(states)
		return
	}
	granted = granted && !unknown // even in shadow mode: the call is made again
	for i := range states {
		c, s := &checks[i], &states[i]
		s.Commit(c.Rule, c.Cost, now, granted && s.fits && !s.passedOver)
		if c.Rule.Divided {
			s.commitShare(c)
		}
		if !s.fits && c.Rule.Penalized() && !unknown {
			s.strike(c, now)
		}
		if c.Once != nil && c.Cost > 0 {
			s.remember(c, now, granted && s.fits && !s.passedOver)
		}
	}
}

// remember notes that the check's operation was charged, or repeated.
func (s *State) remember(c *store.Check, now int64, granted bool) {
	switch {
	case s.reading.Charged:
		s.Mark, s.MarkChanged = Mark{At: now, Expires: now + c.Rule.Once.Microseconds()}, true
	case granted && s.repeated:
		s.Mark.Repeats++
		s.MarkChanged = true
	}
}

// Answer sets the results of checks that [Decide] has decided. results[i] answers
// checks[i].
func Answer(checks []store.Check, states []State, results []store.Result) {
	for i := range states {
		c, s := &checks[i], &states[i]
		s.reading.Answer(c.Rule, s.cost(c), &results[i])
		results[i].Repeated = s.repeated && results[i].Allowed && !s.passedOver // a block denies repeats too
		s.reading.Tell(c)
	}
	if AnyChoice(checks) {
		PassOver(checks, results)
	}
}

// cost returns the check's cost: 0 for a repeated operation.
func (s *State) cost(c *store.Check) int64 {
	if s.repeated {
		return 0
	}
	return c.Cost
}

// Judge opens the bucket at now and reports whether the cost fits. Judge, Commit and
// Answer together are [Decide] and [Answer] for a single check that has neither Once nor a
// penalty. offset is [Offset] of the key.
func (s *State) Judge(r *store.Rule, cost, now, offset int64) (fits bool) {
	if r.Algorithm == store.TokenBucket && s.Bucket.isOpen(r, now) {
		// The rest of this method for the most frequent case, without its calls. Commit and Reading.Answer
		// have one, too: together they spare an eighth of what the store in memory takes.
		s.converted, s.exceeds = false, false
		s.reading.Charged, s.reading.Blocked, s.reading.At = false, 0, now
		n := &s.reading.Numbers
		n[0], n[1] = s.Bucket.Form.debt(&s.Bucket, now)
		s.fits = cost == 0 || cost <= r.Burst && debtFits(r, cost, n)
		return s.fits
	}
	if s.exceeds = s.Bucket.exceeds(r, now, r.Integers.Whole); s.exceeds {
		s.converted = false
	} else {
		s.converted = s.Bucket.Open(r, now, offset)
		s.setAside(r)
	}
	s.reading.Charged, s.reading.Blocked = false, 0
	s.read(r, now, cost)
	s.fits = s.reading.fits(r, cost)
	return s.fits
}

// Commit charges the cost that was judged, if it is granted. It reports whether the bucket
// has to be written back.
func (s *State) Commit(r *store.Rule, cost, now int64, granted bool) (changed bool) {
	s.reading.Charged = granted && !s.repeated
	charged := s.reading.Charged && cost > 0
	switch {
	case charged && r.Algorithm == store.TokenBucket:
		n := &s.reading.Numbers
		n[0], n[1] = s.Bucket.setDebt(r, now, n[0]*r.Integers.Rate+n[1]+cost*r.Integers.Unit)
	case charged:
		s.Bucket.charge(r, now, cost)
		s.read(r, now, cost)
	}
	s.BucketChanged = charged || s.converted
	return s.BucketChanged
}

// Answer sets the result of a check that was judged. Without Commit it is the answer of
// Peek.
func (s *State) Answer(r *store.Rule, cost int64, result *store.Result) {
	s.reading.Answer(r, cost, result)
}

// judgePenalty denies the check if its key is blocked. It reports whether the penalty had to be
// brought back, and so has to be stored.
func (s *State) judgePenalty(c *store.Check, now int64) (changed bool) {
	changed = s.Penalty.open(&c.Rule.Block, now)
	if s.Penalty.Until > now {
		s.fits, s.reading.Blocked = false, s.Penalty.Until-now
	}
	return changed
}

// judgeManual is judgePenalty for a block that was set by hand under a rule without a penalty. If the rule
// has got one since, what ends later holds.
func (s *State) judgeManual(now int64) (changed bool) {
	changed = s.Manual.open(now)
	if s.Manual.Until > now {
		s.fits, s.reading.Blocked = false, max(s.reading.Blocked, s.Manual.Until-now)
	}
	return changed
}

// strike counts a denial towards a block, unless a block was its reason.
func (s *State) strike(c *store.Check, now int64) {
	if s.reading.Blocked > 0 {
		return
	}
	s.Penalty.strike(&c.Rule.Block, now)
	s.PenaltyChanged = true
	if s.Penalty.Until > now {
		s.reading.Blocked = s.Penalty.Until - now
	}
}

// Charge charges the checks whether or not they fit, and sets the results, as Charge of
// [store.Store] does. now is in microseconds since the epoch; states[i] is the state of checks[i].
func Charge(now int64, checks []store.Check, states []State, results []store.Result) {
	for i := range states {
		c, s := &checks[i], &states[i]
		s.unchanged()
		switch ints := &c.Rule.Integers; {
		case !s.Bucket.exceeds(c.Rule, now, ints.Whole):
			s.open(c, now)
		case !s.Bucket.exceeds(c.Rule, now, ints.Most):
			s.Bucket.openUpTo(c.Rule, now, Offset(c.Rule, c.Key), ints.Most)
		default: // it is charged no more than that
			s.exceeds = true
		}
		forgiven := c.Cost
		if !s.exceeds {
			forgiven = s.Bucket.ChargeAnyway(c.Rule, now, c.Cost)
		}
		if c.Share != nil && s.Sharing != nil {
			s.Sharing.begin(c, now, 0)
			s.Sharing.chargeAnyway(c.Cost)
			s.Sharing.end()
		}
		s.changed(c, now, true, &results[i])
		results[i].Forgiven = forgiven
	}
}

// Refund gives back what was charged, and updates the results, as Refund of [store.Store] does.
// The parameters are those of [Charge]. It does not read penalties.
func Refund(now int64, checks []store.Check, states []State, results []store.Result) {
	for i := range states {
		c, s, r := &checks[i], &states[i], &results[i]
		if s.unchanged(); !r.Charged {
			continue
		}
		standing := r.Standing
		if c.Share != nil && s.Sharing != nil {
			s.Sharing.begin(c, now, c.Cost)
			s.Sharing.refund(c.Cost, r.At, standing)
			s.Sharing.end()
		}
		if s.Bucket.isForeign(c.Rule, now) {
			s.refundForeign(c, now, r)
			r.Standing = standing
			continue
		}
		s.open(c, now)
		if _, end := c.Rule.PeriodOf(r); s.Bucket.isUnknown(c.Rule) && end == s.Bucket.Expires {
			s.BucketChanged = true // it may have been converted
			r.Unknown = true
			s.read(c.Rule, now, 0)
			s.reading.Tell(c)
			continue
		}
		s.Bucket.refund(c.Rule, now, c.Cost, ChargedAt(c.Rule, c.Cost, r))
		if c.Once != nil && s.Mark.At == r.At {
			s.Mark, s.MarkChanged = Mark{}, true
		}
		s.changed(c, now, false, r)
		r.Standing = standing
	}
}

// refundForeign gives back what was charged under other numbers than those that the bucket was written
// under since.
func (s *State) refundForeign(c *store.Check, now int64, r *store.Result) {
	s.Bucket.refundForeign(c.Rule, now, c.Cost, ChargedAt(c.Rule, c.Cost, r))
	if c.Once != nil && s.Mark.At == r.At {
		s.Mark, s.MarkChanged = Mark{}, true
	}
	left := s.Bucket
	s.Bucket.Log = nil
	if IsLog(left.Form.Algorithm) {
		s.Bucket.Log = slices.Clone(left.Log)
	}
	s.open(c, now) // to be read only
	s.changed(c, now, false, r)
	s.Bucket = left
}

// Renew starts the leases of slots anew, and updates the results, as Renew of [store.Store]
// does. The parameters are those of [Charge]. It does not read penalties and marks.
func Renew(now int64, checks []store.Check, states []State, results []store.Result) {
	for i := range states {
		c, s, r := &checks[i], &states[i], &results[i]
		if s.unchanged(); !r.Charged || c.Rule.Algorithm != store.Concurrency {
			continue
		}
		if s.exceeds = s.Bucket.exceeds(c.Rule, now, c.Rule.Integers.Whole); !s.exceeds {
			s.open(c, now)
			s.Bucket.renew(c.Rule, now, c.Cost, r.At)
		}
		s.changed(c, now, true, r)
	}
}

// Reset forgets what the checks' keys have used, and lifts their blocks, as Reset of
// [store.Store] does. It reads nothing of the states, so they can be zero. See [ValidKeys].
func Reset(checks []store.Check, states []State) {
	for i := range states {
		c, s := &checks[i], &states[i]
		s.Bucket, s.Manual, s.Penalty, s.Mark = Bucket{}, ManualBlock{}, Penalty{}, Mark{}
		s.BucketChanged, s.ManualChanged, s.PenaltyChanged, s.MarkChanged = true, true, c.Rule.Penalized(), c.Once != nil
		if h := s.Sharing; h != nil {
			*h = Sharing{ClientChanged: true, UserChanged: c.Share.User != nil}
		}
	}
}

// BlockKeys blocks the checks' keys for d from now on, as Block of [store.Store] does. now is in
// microseconds since the epoch. Of the states it reads penalties and manual blocks only. See
// [ValidKeys] and [store.ValidBlockTime].
func BlockKeys(now int64, checks []store.Check, states []State, d time.Duration) {
	for i := range states {
		rule, s := checks[i].Rule, &states[i]
		s.unchanged()
		s.Manual, s.ManualChanged = ManualBlock{}, true // in place of any block in force
		if rule.Penalized() {
			s.Penalty.open(&rule.Block, now)
			s.Penalty.block(&rule.Block, now, d)
			s.PenaltyChanged = true
		} else {
			s.Manual = ManualBlock{Since: now, Until: now + d.Microseconds()}
		}
	}
}

// UnblockKeys forgets the penalties and manual blocks of the checks' keys, as Unblock of [store.Store] does. It
// reads nothing of the states, so they can be zero. See [ValidKeys].
func UnblockKeys(checks []store.Check, states []State) {
	for i := range states {
		s := &states[i]
		s.unchanged()
		s.Manual, s.ManualChanged = ManualBlock{}, true
		s.Penalty, s.PenaltyChanged = Penalty{}, checks[i].Rule.Penalized()
	}
}

func (s *State) unchanged() {
	s.BucketChanged, s.ManualChanged, s.PenaltyChanged, s.MarkChanged = false, false, false, false
	s.exceeds, s.passedOver = false, false
	s.Sharing.unchanged()
}

func (s *State) open(c *store.Check, now int64) {
	s.Bucket.Open(c.Rule, now, Offset(c.Rule, c.Key))
	s.setAside(c.Rule)
}

// changed marks the bucket as changed, unless it was left as it is, and sets the result after the change.
func (s *State) changed(c *store.Check, now int64, charged bool, result *store.Result) {
	s.BucketChanged = !s.exceeds
	s.reading.Charged, s.reading.Blocked = charged, 0
	s.read(c.Rule, now, 0)
	if n := &s.reading.Numbers; c.Rule.Divided {
		if n[sharePart], n[tellPart] = 0, 0; c.Share != nil && s.Sharing != nil {
			n[sharePart] = s.Sharing.share
		}
	}
	s.reading.Answer(c.Rule, 0, result)
	s.reading.Tell(c)
}
