package redisstore

// From a request's checks to the nodes that decide them: one job per hash slot, sent
// at once, and sent again where a slot has moved.

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// anySlot has jobsWith find the slot of each check.
const anySlot = -1

// jobsFor makes the jobs of a request and appends them to js, one per slot. A refund
// leaves out checks that were not charged. A renewal leaves out those that hold no
// concurrency slots, too. The jobs are to be sealed.
func (s *Store) jobsFor(js []*job, op operation, checks []store.Check, results []store.Result) []*job {
	return s.jobsWith(js, op, anySlot, checks, results, chargedAt)
}

// chargedAt is when the script is to look for a charge.
func chargedAt(c *store.Check, charged *store.Result) int64 {
	return counting.ChargedAt(c.Rule, c.Cost, charged)
}

// chargedJustNow is chargedAt for a charge of the same request. If the clock was set back before, it has
// gone to a calendar window or to an entry of a log that is ahead. What is left until that is
// forgotten tells which.
func chargedJustNow(c *store.Check, charged *store.Result) int64 {
	ends := charged.At + charged.ResetAfter.Microseconds()
	switch c.Rule.Algorithm {
	case store.Calendar, store.Ledger:
		return ends - 1 // the window's last moment
	case store.SlidingLog:
		return ends - c.Rule.Window.Microseconds()
	}
	return chargedAt(c, charged)
}

// jobsWith is jobsFor with one job for all checks if slot is not anySlot, and with what says when the
// checks of a refund or renewal were charged.
func (s *Store) jobsWith(js []*job, op operation, slot int, checks []store.Check, results []store.Result, at func(*store.Check, *store.Result) int64) []*job {
	hasMarks := op == take || op == peek || op == refund || op == reset
	ofCharges := op == refund || op == renew // of charges that results hold
	now := int64(0)                          // read for calendar windows only: not every request needs the clock
	for i := range checks {                  // marks come before all checks
		if hasMarks && checks[i].Once != nil {
			charged := int64(0)
			if ofCharges {
				if !results[i].Charged {
					continue
				}
				charged = results[i].At
			}
			var j *job
			js, j = s.jobFor(js, op, slot, &checks[i])
			j.addMark(i, &checks[i], charged)
		}
	}
	for i, end := 0, 0; i < len(checks); i = end {
		end = i + 1
		if op == take {
			end = counting.EndOfChoice(checks, i)
		}
		charged := int64(0)
		if ofCharges {
			if !results[i].Charged || op == renew && checks[i].Rule.Algorithm != store.Concurrency {
				continue
			}
			charged = at(&checks[i], &results[i])
		}
		for k := i; k < end && now == 0; k++ {
			if onCalendar(checks[k].Rule) {
				now = s.serverClock.now()
			}
		}
		var j *job
		js, j = s.jobFor(js, op, slot, &checks[i])
		if j.Clock = now; end > i+1 {
			j.addChoice(i, checks[i:end])
		} else {
			j.add(i, &checks[i], charged)
		}
		if checks[i].Share != nil && op <= reset {
			var of *store.Result
			if ofCharges {
				of = &results[i]
			}
			j.addShare(&checks[i], of)
		}
	}
	return js
}

// onCalendar reports whether the script must be told the rule's current window.
func onCalendar(rule *store.Rule) bool {
	return rule.Algorithm == store.Calendar || rule.Algorithm == store.Ledger
}

// jobFor returns the job of a check's slot: one of js, or a new one that it appends.
func (s *Store) jobFor(js []*job, op operation, slot int, check *store.Check) ([]*job, *job) {
	if slot == anySlot {
		slot = s.route.slot(s.prefix, check.Key)
	}
	at := slices.IndexFunc(js, func(j *job) bool { return j.slot == slot })
	if at < 0 {
		at = len(js)
		js = append(js, newJob(op, slot))
		js[at].payers, js[at].logLengths = &s.payers, &s.logLengths
	}
	return js, js[at]
}

// sealAll seals jobs.
func (s *Store) sealAll(js []*job) []*job {
	for _, j := range js {
		j.seal(s.prefix)
	}
	return js
}

// run has jobs decided, and returns by the context's deadline. Jobs of several slots
// are decided at once, in the time of one.
func (s *Store) run(ctx context.Context, js []*job) error {
	if len(js) != 1 {
		return s.runSeveral(ctx, js)
	}
	n, err := s.route.node(ctx, js[0])
	if err == nil {
		err = n.do(ctx, js[0])
	}
	return s.followRedirections(ctx, n, js[0], err)
}

// runInBackground has jobs decided that nobody waits for, in a time of the store's own: the context of the request that they
// are for is its caller's again by then. It releases them, and says nothing of a failure.
func (s *Store) runInBackground(js []*job) {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience.background)
	defer cancel()
	_ = s.run(ctx, js)
	releaseAll(js)
}

// runSeveral is run for jobs of several slots. It is apart, so that the many goroutines that wait in run
// have a small stack to come back to.
func (s *Store) runSeveral(ctx context.Context, js []*job) error {
	nodes, errs := make([]*node, len(js)), make([]error, len(js))
	for i, j := range js {
		j.canLead = false // its owner has other jobs to wait for
		nodes[i], errs[i] = s.route.node(ctx, j)
	}
	for i, n := range nodes {
		if n == nil || slices.Contains(nodes[:i], n) {
			continue
		}
		var together []*job // jobs of one node are one batch
		for k := i; k < len(js); k++ {
			if nodes[k] == n {
				together = append(together, js[k])
			}
		}
		err := n.start(ctx, together)
		for k := i; k < len(js); k++ {
			if nodes[k] == n {
				errs[k] = err
			}
		}
	}
	for i, j := range js {
		if errs[i] == nil {
			errs[i] = nodes[i].wait(ctx, j)
		}
		errs[i] = s.followRedirections(ctx, nodes[i], j, errs[i])
	}
	return errors.Join(errs...)
}

// maxHops is how often a job is sent on to another node, or again.
const maxHops = 8

// followRedirections sends a job again as long as its error says that its slot is on
// another node, or on its way there, or that it was not sent since the node's client is closed. n is the
// node that gave the error; nil if there was none. It returns the error that is left.
func (s *Store) followRedirections(ctx context.Context, n *node, j *job, err error) error {
	for hops := 0; err != nil && hops < maxHops; hops++ {
		// TRYAGAIN says that the keys of a call are on two nodes. In a call with other
		// jobs, that can last for longer than this job's own keys are. ASKING gives the job
		// a call of its own, and means nothing to a node that has the slot.
		// Before Redis 7.0, ASK to a call of several jobs says the same: some of its keys have
		// moved. Those of this job would begin anew on the other node if they have not.
		asking := true
		to, moved := redirectionOf(err)
		if moved && (j.asking || !to.ask) {
			if n, err = s.route.follow(ctx, n, to); err != nil {
				break
			}
			asking = to.ask
		} else if n != nil && classOf(err) == store.ClassClosed {
			if n = s.inPlaceOf(ctx, n, j); n == nil {
				break
			}
			asking = false
		} else if !moved && (n == nil || classOf(err) != ClassTryAgain || !pause(ctx, 2*time.Millisecond)) {
			break
		}
		j.again(asking)
		err = n.do(ctx, j)
	}
	if err == nil && j.Clock != 0 {
		s.serverClock.learn(j.at, j.Clock)
	}
	if err != nil && !j.isAbandoned() { // an abandoned job is not the owner's any more
		j.err = err
	}
	return err
}

// timeLeft returns the time to the context's deadline, or the default time-out.
func timeLeft(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return time.Until(at)
	}
	return store.DefaultTimeout
}

// pause waits, and reports false if the context ends before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
