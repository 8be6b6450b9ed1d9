package store

// State is everything that a store holds for one check. A store that can read, change
// and write back as one step, such as a map behind a mutex or a row in a transaction,
// needs no more than this: it reads the states of all checks of a call, has [Decide],
// [Charge], [Refund] or [Renew] change them, and writes those that say so.
//
// The zero State is that of a key that has used nothing. A State can be used for another
// check once Bucket, and Penalty and Mark where that check needs them, are set again.
type State struct {
	Bucket  Bucket  // of the check's key and rule
	Penalty Penalty // of the check's key and rule, if the rule is Penalized
	Mark    Mark    // of the check's operation, if it has Once

	// What is to be written, and nothing else is: a bucket unless it is Unused by then, a penalty and a mark
	// until they expire. A mark that is zero is to be removed.
	BucketChanged, PenaltyChanged, MarkChanged bool

	reading                   Reading
	fits, converted, repeated bool
}

// Decide decides checks together, as [Store].Take does if take is set and else as Peek
// does, at a time in microseconds since the epoch. states[i] is that of checks[i]. The
// results are [Answer]'s to give, which needs no lock any more.
func Decide(now int64, checks []Check, states []State, take bool) {
	granted := true
	for i := range states {
		c, s := &checks[i], &states[i]
		s.unchanged()
		s.repeated = c.Once != nil && s.Mark.Expires > now && s.Mark.Repeats < c.Rule.Repeats
		s.Judge(c.Rule, s.cost(c), now, c.Rule.Offset(c.Key))
		if c.Rule.Penalized() {
			s.judgePenalty(c, now)
		}
		granted = granted && (s.fits || c.Shadow)
	}
	if !take {
		return
	}
	for i := range states {
		c, s := &checks[i], &states[i]
		s.Settle(c.Rule, c.Cost, now, granted && s.fits)
		if !s.fits && c.Rule.Penalized() {
			s.strike(c, now)
		}
		if c.Once == nil || c.Cost == 0 {
			continue
		}
		switch {
		case s.reading.Charged:
			s.Mark, s.MarkChanged = Mark{At: now, Expires: now + c.Rule.Once.Microseconds()}, true
		case granted && s.fits && s.repeated:
			s.Mark.Repeats++
			s.MarkChanged = true
		}
	}
}

// Answer fills in the results of checks that were decided.
func Answer(checks []Check, states []State, results []Result) {
	for i := range states {
		c, s := &checks[i], &states[i]
		c.Rule.Answer(s.cost(c), &s.reading, &results[i])
		results[i].Repeated = s.repeated && results[i].Allowed // or a block holds
	}
}

// cost returns what the check takes: nothing, of a repeated operation.
func (s *State) cost(c *Check) int64 {
	if s.repeated {
		return 0
	}
	return c.Cost
}

// Judge brings the bucket to now and says whether the cost fits into it. With Settle
// and Answer it is Decide for a single check that has neither an operation nor a
// penalty. offset is [Rule].Offset of the key.
func (s *State) Judge(r *Rule, cost, now, offset int64) (fits bool) {
	s.converted = s.Bucket.Open(r, now, offset)
	s.reading.Charged, s.reading.Blocked = false, 0
	s.Bucket.Read(r, now, cost, &s.reading)
	s.fits = r.Fits(cost, &s.reading)
	return s.fits
}

// Settle charges the cost that was judged if it is granted, and says whether the bucket
// has changed.
func (s *State) Settle(r *Rule, cost, now int64, granted bool) (changed bool) {
	s.reading.Charged = granted && !s.repeated
	charged := s.reading.Charged && cost > 0
	if charged {
		s.Bucket.Charge(r, now, cost)
		s.Bucket.Read(r, now, cost, &s.reading)
	}
	s.BucketChanged = charged || s.converted
	return s.BucketChanged
}

// Answer is the result of a check that was judged, and settled or not.
func (s *State) Answer(r *Rule, cost int64, result *Result) { r.Answer(cost, &s.reading, result) }

// judgePenalty has the check fit no longer if its key is blocked.
func (s *State) judgePenalty(c *Check, now int64) {
	s.Penalty.Open(&c.Rule.Block, now)
	if c.Cost > 0 && s.Penalty.Until > now {
		s.fits, s.reading.Blocked = false, s.Penalty.Until-now
	}
}

// strike counts that the check did not fit, unless a block is the reason.
func (s *State) strike(c *Check, now int64) {
	if s.reading.Blocked > 0 {
		return
	}
	s.Penalty.Strike(&c.Rule.Block, now)
	s.PenaltyChanged = true
	if s.Penalty.Until > now {
		s.reading.Blocked = s.Penalty.Until - now
	}
}

// Charge charges the checks whether or not they fit, as [Store].Charge does.
func Charge(now int64, checks []Check, states []State, results []Result) {
	for i := range states {
		c, s := &checks[i], &states[i]
		s.unchanged()
		s.open(c, now)
		s.Bucket.ChargeAnyway(c.Rule, now, c.Cost)
		s.changed(c, now, true, &results[i])
	}
}

// Refund gives back what was charged, as [Store].Refund does. Penalties are not read.
func Refund(now int64, checks []Check, states []State, results []Result) {
	for i := range states {
		c, s, r := &checks[i], &states[i], &results[i]
		if s.unchanged(); !r.Charged {
			continue
		}
		s.open(c, now)
		s.Bucket.Refund(c.Rule, now, c.Cost, c.Rule.ChargedAt(c.Cost, r))
		if c.Once != nil && s.Mark.At == r.At {
			s.Mark, s.MarkChanged = Mark{}, true
		}
		s.changed(c, now, false, r)
	}
}

// Renew begins the leases of slots anew, as [Store].Renew does.
func Renew(now int64, checks []Check, states []State, results []Result) {
	for i := range states {
		c, s, r := &checks[i], &states[i], &results[i]
		if s.unchanged(); !r.Charged || c.Rule.Algorithm != Concurrency {
			continue
		}
		s.open(c, now)
		s.Bucket.Renew(c.Rule, now, c.Cost, r.At)
		s.changed(c, now, true, r)
	}
}

func (s *State) unchanged() { s.BucketChanged, s.PenaltyChanged, s.MarkChanged = false, false, false }

func (s *State) open(c *Check, now int64) { s.Bucket.Open(c.Rule, now, c.Rule.Offset(c.Key)) }

// changed answers what has changed the bucket.
func (s *State) changed(c *Check, now int64, charged bool, result *Result) {
	s.BucketChanged = true
	s.reading.Charged, s.reading.Blocked = charged, 0
	s.Bucket.Read(c.Rule, now, 0, &s.reading)
	c.Rule.Answer(0, &s.reading, result)
}
