package redisstore

// A job: what one request asks of one hash slot, on its way to Redis and back.
// This file has what a job holds and how it is built. jobstate.go has who may touch
// it when, answer.go how its answer is read.

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// operation is what the script is asked to do.
type operation = script.Op

const (
	take    = script.Take
	peek    = script.Peek
	charge  = script.Charge
	refund  = script.Refund
	reset   = script.Reset
	renew   = script.Renew
	restore = script.Restore
)

// job is what a request asks of one slot: one group of checks, which the script
// decides all or nothing. The request's goroutine is its owner. The owner builds the
// job and seals it, hands it to a node, waits for it, reads the answer and releases
// it.
//
// Between sealing and the end of the wait, the goroutine that runs the job's batch
// reads it as well, even after the owner has given up. So nothing is written then
// but the state and the answer.
type job struct {
	script.Group
	slot int

	// What the owner knows of the checks. Set while the job is built.
	hash       uint64 // of all that is asked; 0 unless mergeable
	mergeable  bool   // equal jobs can be sent as one
	penalized  bool   // penalties among the checks decide with them
	judgeOnly  bool   // a take that charges nothing, whatever fits; see judge
	leavesHold bool   // a take that leaves holds beside its charges; see hold
	canLead    bool   // the owner waits for this job alone, so it can run a batch meanwhile
	asking     bool   // the slot is moving to this node: send ASKING first

	payers     *payers     // of the store
	logLengths *logLengths // of the store
	logEntries int         // how many entries of logs the script has to read, by estimate

	// How it gets to Redis and back; see jobstate.go.
	state    atomic.Int32  // a jobState
	signal   chan struct{} // gets one element when the state becomes done or leading
	ends     int64         // when the owner's time is over, on the monotonic clock; 0 if its context says so
	lateEnds int64         // the same after a late start, or 0; see node.timeFor. The owner's alone.
	left     bool          // it was abandoned while it was queued; written before the signal
	batch    *batch        // to be run by the owner, if the state is leading

	// The answer. The goroutine that runs the batch writes it before the state
	// becomes done; the owner reads it after.
	at     int64       // when the script decided, in microseconds since the epoch
	reply  string      // the script's answer to the group
	bars   script.Bars // which checks are of keys that are blocked by hand; set by readAnswer
	err    error
	unsent bool // err is of a job that was never sent
	group  int  // which of the batch's groups the job is in
	before int  // how many equal jobs of the group are decided before this one

	// What the owner found in the answer; see readAnswer.
	granted bool // a take whose checks were charged, as far as they fit
	denial
}

// denial says whether and how a job is denied. Both can be true, for different
// checks.
type denial struct {
	final     bool // an enforced check does not fit
	tentative bool // one does not fit that may in a moment; see isTentative
}

// isDenied reports whether an enforced check did not fit.
func (d denial) isDenied() bool { return d.final || d.tentative }

// jobs are for reuse, so that a check allocates nothing. All are idle.
var jobs = sync.Pool{New: func() any {
	return &job{signal: make(chan struct{}, 1)}
}}

// hashSeed is the seed of all hashes of this package. It is random, so that no
// client can make keys up whose hashes collide.
var hashSeed = maphash.MakeSeed()

// newJob returns an empty job for checks of one slot.
func newJob(op operation, slot int) *job {
	j := jobs.Get().(*job)
	j.Begin(op)
	j.slot, j.canLead, j.mergeable, j.hash = slot, true, op == take || op == peek, 0
	j.penalized, j.judgeOnly, j.leavesHold = false, false, false
	j.payers, j.logLengths, j.logEntries, j.lateEnds = nil, nil, 0, 0
	j.granted, j.denial = false, denial{}
	return j
}

// release gives the job back for reuse. An abandoned one is left to the garbage
// collector, since a batch may still read it.
func (j *job) release() {
	if j.isAbandoned() {
		return
	}
	j.setIdle()
	j.Forget()
	j.asking, j.reply, j.bars, j.before, j.err, j.unsent, j.batch = false, "", "", 0, nil, false, nil
	jobs.Put(j)
}

// releaseAll releases jobs.
func releaseAll(js []*job) {
	for _, j := range js {
		j.release()
	}
}

// again prepares the job to be sent once more by its owner, after an answer that
// decided nothing.
func (j *job) again(asking bool) {
	j.setIdle()
	j.asking, j.canLead = asking, true
	j.reply, j.bars, j.err, j.unsent, j.batch = "", "", nil, false, nil
}

// add adds check number index of the request and, if the operation concerns it, its
// penalty. charged is when the check was charged, for a refund or renewal. The mark
// of a check that can have one has been added before, by addMark.
func (j *job) add(index int, check *store.Check, charged int64) {
	j.Add(index, check, charged)
	// The reading of a log does not tell what the next equal job would see.
	j.mergeable = j.mergeable && check.Rule.Algorithm != store.SlidingLog
	j.countEntries(check.Rule)
	if check.Rule.Penalized() {
		j.addPenalty(index, check)
	}
}

// addShare adds the share of a check, after the check. charged is the result of the charge that is refunded.
func (j *job) addShare(check *store.Check, charged *store.Result) {
	j.AddShare(check, charged)
	j.mergeable = false // of equal jobs some can be within the share
}

// countEntries adds the entries of a log that the script has to read.
func (j *job) countEntries(rule *store.Rule) {
	if j.logLengths != nil && counting.IsLog(rule.Algorithm) {
		j.logEntries += j.logLengths.longest(rule)
	}
}

// addChoice adds a check of a take with its alternatives, which have no penalties: checks of the request from number
// index on.
func (j *job) addChoice(index int, checks []store.Check) {
	j.AddChoice(index, checks, j.payers.of(checks))
	j.mergeable = false // which one is charged depends on the equal jobs before this one
	for i := range checks {
		j.countEntries(checks[i].Rule)
	}
}

// addMark adds the mark of a check with Once, which records that its operation was
// charged. All marks come before all checks.
func (j *job) addMark(index int, check *store.Check, charged int64) {
	j.AddMark(index, check, charged)
	j.mergeable = false // of equal jobs only the first is charged
}

// addPenalty adds the penalty of a check, unless the operation does not concern it.
func (j *job) addPenalty(index int, check *store.Check) {
	switch j.Op {
	case take, peek:
		if check.Cost == 0 {
			return // such a check neither counts towards a block nor is blocked
		}
		j.penalized, j.mergeable = true, false // equal jobs would not see each other's denials
		j.GuardChecks()
	case reset:
	default:
		return
	}
	j.AddPenalty(index, check, check.Rule.Block.For)
}

// seal adds the Redis keys. From then on the job refers to nothing of the request.
func (j *job) seal(prefix string) {
	j.Seal(prefix)
	if j.mergeable {
		j.hash = maphash.Bytes(hashSeed, j.Bytes())
	}
}

// isEqual reports whether both jobs ask the same of the same keys.
func (j *job) isEqual(other *job) bool {
	return j.hash == other.hash && bytes.Equal(j.Bytes(), other.Bytes())
}
