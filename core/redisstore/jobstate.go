package redisstore

// The states of a job. Two goroutines share a job: its owner, which may give up at
// any moment, and the one that holds the job in a queue or batch. A third, which sweeps,
// takes the job from both when its time is over. The state says whose turn it is.
// All transitions are in this file:
//
//	from      to         by the goroutine that  how           when
//	idle      queued     owns it                node.mu held  all places of the node are taken
//	idle      inFlight   owns it                node.mu held  a place is free; the job is in a batch
//	queued    inFlight   takes the next batch   CAS, node.mu  a place has become free
//	queued    done       opens the breaker      CAS, signals  the node is not asked any more
//	queued    abandoned  owns it                CAS           its context has ended
//	queued    abandoned  sweeps                 CAS, signals  its deadline is over
//	inFlight  leading    holds the batch        CAS, signals  the owner is to run the batch
//	inFlight  done       runs the batch         CAS, signals  there is an answer, or an error
//	inFlight  abandoned  owns it                CAS           its context has ended
//	inFlight  abandoned  sweeps                 CAS, signals  its deadline is over
//	done      idle       owns it                store         the job is sent again or released
//	leading   idle       owns it                store         the same, after its batch has run
//	inFlight  idle       owns it                store         the same, if the owner found a place
//	                                                          free and the batch was its own to run
//
// Invariants:
//
//   - A job gets one signal per trip, when it becomes done or leading, or when a sweep
//     abandons it. Only the owner receives it.
//   - From queued and inFlight, exactly one goroutine wins the CAS: either the owner
//     leaves with a time-out, or it must wait for the signal, which is then certain.
//   - A sweep sees a job only while nobody can have finished it: node.mu is held, and
//     the job is in the queue, or in a batch that node.next has not been called for.
//   - A job that is abandoned stays so, and is never used again. Whoever holds it may
//     still read it, and drops it.
//   - An owner that runs a batch does not wait, so its own job is not signalled.
//   - The job of a probe stays idle, since one goroutine does everything with it.

import "math"

// jobState is a state of the table above.
type jobState int32

const (
	idle      jobState = iota // the owner's alone
	queued                    // in node.queue
	inFlight                  // in a batch
	leading                   // in a batch that the owner runs or is about to run
	done                      // answered
	abandoned                 // the owner has given up
)

// move is a transition that others may have been faster with.
func (j *job) move(from, to jobState) bool {
	return j.state.CompareAndSwap(int32(from), int32(to))
}

// enterQueue: idle → queued. node.mu is held.
func (j *job) enterQueue() { j.state.Store(int32(queued)) }

// enterBatch: idle → inFlight. node.mu is held.
func (j *job) enterBatch() { j.state.Store(int32(inFlight)) }

// leaveQueue: queued → inFlight. It reports false if the job is abandoned. node.mu
// is held.
func (j *job) leaveQueue() bool { return j.move(queued, inFlight) }

// failInQueue: queued → done, with an error. The caller has taken the job out of the
// queue.
func (j *job) failInQueue(err error) {
	j.err, j.unsent = err, true
	if j.move(queued, done) {
		j.signal <- struct{}{}
	}
}

// lead: inFlight → leading. It has the owner run b, and reports false if it can't.
// After true, the batch is the owner's alone.
func (j *job) lead(b *batch) bool {
	if !j.canLead || !j.move(inFlight, leading) {
		return false
	}
	j.batch = b
	j.signal <- struct{}{}
	return true
}

// finish: inFlight → done. The answer has been written.
func (j *job) finish() {
	if j.move(inFlight, done) {
		j.signal <- struct{}{}
	}
}

// abandon: queued or inFlight → abandoned. It reports false if the job is done or
// leading; then there is a signal to receive.
func (j *job) abandon() bool {
	// In this order: a job goes from queued to inFlight, never back.
	if j.move(queued, abandoned) {
		j.left = true
		return true
	}
	return j.move(inFlight, abandoned)
}

// expire: queued or inFlight → abandoned, if the owner's time is over. It returns when that
// will be, or math.MaxInt64 if no later sweep is needed. node.mu is held.
func (j *job) expire(now int64) int64 {
	switch state := jobState(j.state.Load()); {
	case j.ends == 0 || state == leading || state == abandoned:
		return math.MaxInt64
	case now < j.ends:
		return j.ends
	}
	if j.abandon() {
		j.signal <- struct{}{}
	}
	return math.MaxInt64
}

// isAbandoned reports whether the owner has given up.
func (j *job) isAbandoned() bool { return jobState(j.state.Load()) == abandoned }

// setIdle: done, leading or inFlight → idle. Nobody else has the job any more.
func (j *job) setIdle() { j.state.Store(int32(idle)) }
