package redisstore

// How the owner of a job reads the script's answer: which checks were charged, what
// each limit has left, and whether a denial is final.
//
// The script says of each check how many equal jobs it fits by itself, and gives its
// reading before all of them. Everything else follows: a job is charged if enough
// jobs before it, and itself, fit all enforced checks.

import (
	"math"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// readAnswer fills in the results of the job's checks. It fails if the reply is not
// one that the script gives.
func (j *job) readAnswer(checks []store.Check, results []store.Result) error {
	if err := j.CheckLength(j.reply); err != nil {
		return &store.Error{Class: store.ClassUnknown, Err: err}
	}
	if whole, granted := j.IsWhole(j.reply); whole {
		j.readWhole(granted, checks, results)
		return nil
	}
	j.bars, j.reply = j.CutBars(j.reply)
	if counting.AnyChoice(checks) && j.Op <= peek {
		j.readChoices(checks, results)
		return nil
	}
	if j.penalized {
		j.readPenalized(checks, results)
		return nil
	}
	granted := math.MaxInt // how many of the equal jobs were
	var a script.Answer
	left := j.reply
	for _, i := range j.Checks {
		at := len(j.reply) - len(left)
		if a, left = j.Cut(left, i, checks); i != script.Hold && (!checks[i].Shadow || j.isUnknown(a, &checks[i])) {
			granted = min(granted, j.fits(a, &checks[i], at))
		}
	}
	if j.judgeOnly {
		granted = 0 // its holds did not fit, so nothing was charged
	}
	j.granted = j.Op == take && j.before < granted
	left = j.reply
	for _, i := range j.Checks {
		at := len(j.reply) - len(left)
		if a, left = j.Cut(left, i, checks); i == script.Hold {
			continue
		}
		if j.Op == refund && j.isUnrefunded(a, &checks[i], &results[i]) {
			results[i].Unknown = true // else as it was, to be refunded later
			reading := readingOf(a, checks[i].Rule)
			reading.Tell(&checks[i])
			continue
		}
		blocked := j.bars.For(at)
		j.result(a, &checks[i], granted, blocked, &results[i])
		j.soften(a, &checks[i], blocked, &results[i])
	}
	return nil
}

// readWhole is readAnswer for a plain take that the script has decided at once: it has granted
// all equal jobs, or denied this one, which has no equals.
func (j *job) readWhole(granted bool, checks []store.Check, results []store.Result) {
	j.granted, j.final = granted, !granted
	for i, bucket := range j.Before(j.reply, checks) {
		rule, cost := checks[i].Rule, checks[i].Cost
		var reading counting.Reading
		bucket.Read(rule, j.at, cost, &reading)
		if granted {
			reading = reading.After(rule, int64(j.before+1)*cost)
		}
		reading.Answer(rule, cost, &results[i])
	}
}

// readPenalized is readAnswer for checks with penalties. Such a job has no equals,
// since it is not mergeable. A penalty that is a block denies the check it belongs to.
func (j *job) readPenalized(checks []store.Check, results []store.Result) {
	granted := 1
	for i, a := range j.answers(checks) {
		if of := i.request(); !checks[of].Shadow || i.check >= 0 && j.isUnknown(a, &checks[of]) {
			granted = min(granted, j.fits(a, &checks[of], i.at))
		}
	}
	if j.judgeOnly {
		granted = 0
	}
	j.granted = j.Op == take && granted > 0
	for i, a := range j.answers(checks) {
		if n := i.check; n >= 0 {
			blocked := j.blockedFor(checks, n)
			j.result(a, &checks[n], granted, blocked, &results[n])
			j.soften(a, &checks[n], blocked, &results[n])
		}
	}
}

// answered says what an answer is to: check number check of the request, or the penalty of ^check. at is where the answer
// begins in the reply.
type answered struct{ check, at int }

// request returns the number of the check, or of the one that the penalty guards.
func (i answered) request() int { return max(i.check, ^i.check) }

// answers yields the script's answers to checks and penalties. It leaves out holds.
func (j *job) answers(checks []store.Check) func(yield func(i answered, a script.Answer) bool) {
	return func(yield func(answered, script.Answer) bool) {
		var a script.Answer
		left := j.reply
		for _, i := range j.Checks {
			at := len(j.reply) - len(left)
			if a, left = j.Cut(left, i, checks); i != script.Hold && !yield(answered{i, at}, a) {
				return
			}
		}
	}
}

// blockedFor returns for how many microseconds the key of a check is blocked, by its penalty or by hand.
func (j *job) blockedFor(checks []store.Check, check int) (longest int64) {
	if j.bars == "" && !slices.Contains(j.Checks, ^check) {
		return 0
	}
	left, before := j.reply, 0
	for _, i := range j.Checks {
		a, rest := j.Cut(left, i, checks)
		switch i {
		case ^check:
			longest = max(longest, a.Number(0))
		case check:
			longest = max(longest, j.bars.For(before))
		}
		left, before = rest, before+len(a)
	}
	return longest
}

// blockedThroughout returns for how many microseconds none of the checks can count a denial: each
// that has a penalty is blocked. 0 if one of them is not, or is in shadow mode.
func (j *job) blockedThroughout(checks []store.Check) int64 {
	least := int64(math.MaxInt64)
	for i := range checks {
		if slices.Contains(j.Checks, ^i) {
			if checks[i].Shadow {
				return 0
			}
			least = min(least, j.blockedFor(checks, i))
		}
	}
	return least
}

// fits returns how many equal jobs an enforced check fits, whose answer is at a place of the reply. If it
// does not fit this one, it notes the denial.
func (j *job) fits(a script.Answer, check *store.Check, at int) int {
	fits, barred := a.Fits(), j.bars.For(at) > 0
	if barred {
		fits = 0 // a repeat that would be free has another answer
	}
	if fits == 0 || j.Op == take && !j.judgeOnly && j.before >= fits {
		if !barred && j.isTentative(a, check) {
			j.tentative = true
		} else {
			j.final = true
		}
	}
	return fits
}

// isUnknown reports whether a check is of an account that the store does not know. Then nothing of
// a take was charged, whether the check is enforced or not.
func (j *job) isUnknown(a script.Answer, check *store.Check) bool {
	return check.Cost > 0 && isUnknownLedger(a, check)
}

// isUnknownLedger reports whether an answer says that the store does not know a check's account.
func isUnknownLedger(a script.Answer, check *store.Check) bool {
	if check.Rule.Algorithm != store.Ledger {
		return false
	}
	reading := readingOf(a, check.Rule)
	return reading.IsUnknown()
}

// readingOf returns the numbers of an answer.
func readingOf(a script.Answer, rule *store.Rule) (reading counting.Reading) {
	for k := range script.Numbers(rule.Algorithm) {
		reading.Numbers[k] = a.Number(k)
	}
	return reading
}

// isUnrefunded reports whether a refund was left out, because the account that was charged is
// unknown now.
func (j *job) isUnrefunded(a script.Answer, check *store.Check, charged *store.Result) bool {
	if !isUnknownLedger(a, check) {
		return false
	}
	_, end := check.Rule.PeriodOf(charged)
	return j.at+a.Number(1) == end
}

// isTentative reports whether an enforced check was denied because of charges that
// may be given back: those of others, or of equal jobs of the same batch that leave
// holds themselves.
func (j *job) isTentative(a script.Answer, check *store.Check) bool {
	return !check.Shadow && check.Cost <= check.Rule.Burst && (a.Tentative() || j.leavesHold && a.Fits() > 0)
}

// result turns the script's answer to a check into its result, and sets its account. granted is how many
// of the equal jobs were charged, and blocked for how many microseconds the key is
// blocked.
func (j *job) result(a script.Answer, check *store.Check, granted int, blocked int64, result *store.Result) {
	rule, cost, fits := check.Rule, check.Cost, a.Fits()
	// A shadow check that does not fit is not charged, even if the job is granted.
	repeated := check.Once != nil && fits == script.Repeated && (j.Op == take || j.Op == peek)
	charged := j.Op == charge || j.Op == renew || j.Op == restore && fits > 0 || !repeated && j.Op == take && j.before < granted && j.before < fits
	numbers := a
	if charged { // the script gives both readings of a log, before the charge and after
		numbers = a.After(j.Op, rule.Algorithm)
	}
	reading := readingOf(numbers, rule)
	a.Shared(check, &reading)
	reading.At, reading.Charged, reading.Blocked = j.at, charged, blocked
	if j.logLengths != nil && counting.IsLog(rule.Algorithm) {
		j.logLengths.note(rule, reading.Numbers[0])
	}
	switch {
	case repeated:
		reading.Tell(check)
		reading.Answer(rule, 0, result)
		result.Repeated = result.Allowed // false if a block is in force
		return
	case j.Op > peek: // there is no question whether it fits
		standing := result.Standing
		reading.Tell(check)
		reading.Answer(rule, 0, result)
		if j.Op == refund {
			result.Standing = standing
		}
		if j.Op == charge && !result.Unknown {
			result.Forgiven = a.Forgiven(check)
		}
		return
	}
	// The reading is from before all equal jobs, except that of a log.
	if j.Op == take && rule.Algorithm != store.SlidingLog {
		charges := min(j.before, granted, fits) // of the equal jobs before this one
		if charged {
			charges++
		}
		if cost > 0 && charges > 0 {
			reading = reading.After(rule, int64(charges)*cost)
			reading.Charged = charged
			if rule.Algorithm == store.Ledger {
				reading.Numbers[2] += int64(charges) - 1 // one change for each
			}
		}
	}
	reading.Tell(check)
	reading.Answer(rule, cost, result)
}

// soften shortens the waits of a check that was denied tentatively, but not below the microseconds for
// which its key is blocked.
func (j *job) soften(a script.Answer, check *store.Check, blocked int64, result *store.Result) {
	if j.Op <= peek && !result.Allowed && j.isTentative(a, check) {
		retrySoon(result, time.Duration(blocked)*time.Microsecond)
	}
}
