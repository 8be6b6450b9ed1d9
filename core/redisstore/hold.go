package redisstore

// Holds: the markers of tentative charges. A charge that may still be given back
// leaves a hold in the value that it is charged to. As long as the value has a hold,
// the script flags denials of the key, and the store treats them as tentative. See
// multislot.go for when charges are tentative.

import (
	"time"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
)

// maxTentativeWait is the longest Retry-After of a tentative denial.
const maxTentativeWait = 10 * time.Millisecond

// hold adds a hold to each key of the job. A take leaves one more hold. A refund
// removes one of those that were left at the time taken, when the job's take was
// decided.
func (j *job) hold(taken int64) {
	j.leavesHold = j.AddHolds(1, taken) && j.Op == take
}

// judge makes a take charge nothing, by asking for more holds than there can be. The
// answer is that of a peek, and the side effects are those of a denied take: blocks,
// and records under the limits' current numbers. It reports whether there was room
// for it in the job.
func (j *job) judge() bool {
	j.judgeOnly = j.AddHolds(2*script.HoldRoom, 0)
	return j.judgeOnly
}

// retrySoon shortens the waits of a tentative denial: what denied the request may be
// given back in a moment, but a block lasts for as long as it does.
func retrySoon(r *store.Result, blocked time.Duration) {
	soon := max(maxTentativeWait, blocked)
	r.RetryAfter = min(r.RetryAfter, soon)
	r.Window = min(r.Window, soon)
}
