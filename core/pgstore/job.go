package pgstore

import (
	"bytes"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// operation is a method of store.Store: which records it needs, and what it does to their
// states.
type operation struct {
	bucket, penalty, mark, share bool
	blind                        bool // overwrites them, whatever they hold; of a share its parts only
	run                          func(now int64, checks []store.Check, states []counting.State, results []store.Result)
}

// job is one call of a method. Its caller may return before it is done, so it keeps nothing
// of the caller's.
type job struct {
	operation
	checks   []store.Check
	given    []store.Result // by the caller: Refund and Renew read them
	results  []store.Result
	accounts []store.Account       // of the checks that have one
	parts    [][recordParts]string // per check: the ids of its records; "" for none
	ids      []string              // all of them, each once
	deadline time.Duration

	progress atomic.Int32
	locks    atomic.Bool   // its flight locks records first, and waits for whoever has them
	done     chan struct{} // closed when results and failure are set
	failure  *failure
}

// The progress of a job. Its caller leaves a waiting job undone, and a flying one unknown.
const (
	waiting int32 = iota
	flying
	left
)

// failure is why a job was not done.
type failure struct {
	err    *store.Error
	undone bool // certainly nothing has changed
}

// The places in job.parts.
const (
	bucketPart = iota
	penaltyPart
	markPart
	divisionPart
	clientPart
	usersPart
	userPart

	recordParts
)

var kinds = [recordParts]kind{bucketRecord, penaltyRecord, markRecord, divisionRecord, clientRecord, usersRecord, userRecord}

func newJob(op operation, checks []store.Check, results []store.Result, deadline time.Duration) *job {
	j := &job{
		operation: op,
		checks:    slices.Clone(checks),
		given:     slices.Clone(results),
		results:   make([]store.Result, len(results)),
		parts:     make([][recordParts]string, len(checks)),
		ids:       make([]string, 0, len(checks)),
		deadline:  deadline,
		done:      make(chan struct{}),
	}
	for i := range j.checks {
		c := &j.checks[i]
		c.Key, c.Once, c.Share = bytes.Clone(c.Key), bytes.Clone(c.Once), cloneShare(c.Share)
		if c.Account != nil {
			if j.accounts == nil {
				j.accounts = make([]store.Account, len(checks))
			}
			j.accounts[i] = *c.Account
			c.Account = &j.accounts[i]
		}
		if op.bucket {
			j.need(i, bucketPart, idOf(bucketRecord, c.Rule, c.Key))
		}
		if op.penalty && c.Rule.Penalized() {
			j.need(i, penaltyPart, idOf(penaltyRecord, c.Rule, c.Key))
		}
		if op.mark && c.Once != nil {
			j.need(i, markPart, markID(c.Rule, c.Key, c.Once))
		}
		if op.share && c.Share != nil {
			j.needShare(i, !op.blind)
		}
	}
	// A call of Reset, Block or Unblock may name a key twice, and a record is wanted once.
	slices.Sort(j.ids)
	j.ids = slices.Compact(j.ids)
	return j
}

func (j *job) need(check, part int, id string) {
	j.parts[check][part] = id
	j.ids = append(j.ids, id)
}

// begins reports whether the job is to be done now: its caller still waits.
func (j *job) begins() bool { return j.progress.CompareAndSwap(waiting, flying) }

// waitsAgain reports whether the job is to be tried again, after a trial that changed nothing.
func (j *job) waitsAgain() bool { return j.progress.CompareAndSwap(flying, waiting) }

// leave ends the wait of the job's caller, and reports whether the job was certainly not done. A flight may take the job
// or give it back between the two looks, hence the loop.
func (j *job) leave() (undone bool) {
	for {
		if j.progress.CompareAndSwap(waiting, left) {
			return true
		}
		if j.progress.CompareAndSwap(flying, left) {
			return false
		}
	}
}

// copyTo gives the caller what the job has answered.
func (j *job) copyTo(checks []store.Check, results []store.Result) {
	copy(results, j.results)
	for i := range j.accounts {
		if a := checks[i].Account; a != nil {
			*a = j.accounts[i]
		}
	}
}

// end hands the results to the caller.
func (j *job) end(f *failure) {
	j.failure = f
	close(j.done)
}

// decide runs the operation on the records, and notes in them what has changed.
func (j *job) decide(now int64, records map[string]*record) {
	states := make([]counting.State, len(j.checks))
	for i := range states {
		parts, s := &j.parts[i], &states[i]
		if r := records[parts[bucketPart]]; r != nil {
			s.Bucket, s.Manual = r.bucket, r.manual
		}
		if r := records[parts[penaltyPart]]; r != nil {
			s.Penalty = r.penalty
		}
		if r := records[parts[markPart]]; r != nil {
			s.Mark = r.mark
		}
		s.Sharing = j.sharing(i, records)
	}
	copy(j.results, j.given)
	j.run(now, j.checks, states, j.results)
	for i := range states {
		parts, s := &j.parts[i], &states[i]
		if r := records[parts[bucketPart]]; r != nil && s.BucketChanged {
			r.bucket, r.dirty = s.Bucket, true
		}
		if r := records[parts[bucketPart]]; r != nil && s.ManualChanged && s.Manual != r.manual {
			r.manual, r.key, r.dirty = s.Manual, j.checks[i].Key, true
		}
		if r := records[parts[penaltyPart]]; r != nil && s.PenaltyChanged {
			r.penalty, r.key, r.dirty = s.Penalty, j.checks[i].Key, true
		}
		if r := records[parts[markPart]]; r != nil && s.MarkChanged {
			r.mark, r.dirty = s.Mark, true
		}
		j.noteShare(i, s.Sharing, records)
	}
}
