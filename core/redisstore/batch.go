package redisstore

// A batch: the jobs that one round trip decides, and how they become calls of the
// script. See roundtrip.go for how it is sent and read.
//
// Jobs of one slot go into one call, up to maxGroups of them. Equal jobs, which ask
// the same of the same keys, are one group of the call: the script says how many of
// them fit. So 256 clients that ask for one key at once cost Redis one decision.

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
)

const (
	// maxGroups bounds how long one call keeps Redis busy: to some 0.2 ms, for checks
	// of any kind but logs. For those see maxLogEntries.
	maxGroups = 64

	// maxJobs bounds the jobs of a batch.
	maxJobs = 512

	// maxEqualJobs is how many equal jobs a group can stand for. The script answers
	// with this number in seven bits, and 127 with the eighth bit means a failed group.
	maxEqualJobs = 126

	// maxKeys ends a call with the group that reaches it. Lua can pass some 8,000 keys
	// on.
	maxKeys = 512
)

// batch is one round trip to a node, for jobs of any number of requests. One
// goroutine owns it at a time: the one that takes the jobs from the queue, and then
// the one that runs it, which is the owner of one of the jobs or a goroutine of its
// own.
type batch struct {
	jobs   []*job // in order of arrival. Guarded by node.mu while the batch is in node.flights.
	sorted []*job // by slot
	calls  []call
	groups []group // of all calls
	clock  int64   // the time to decide at, in microseconds since the epoch; 0 for Redis's own
	direct bool    // the goroutine that found a place free runs it; it did not come from the queue

	// equals finds groups of the current call by the hash of their jobs: open
	// addressing, with numbers of groups from 1.
	equals [2 * maxGroups]uint8

	// Arguments of the commands, kept for reuse.
	args []arg
	argv []any
	wire script.Call

	io *ioContext // of the round trip
}

// group is what equal jobs ask together, and its answer.
type group struct {
	first *job
	times int // how many jobs
	call  int // which of the batch's calls it is in
	at    int64
	reply string
	err   error
}

// call is one call of the script. All its keys are in one slot.
type call struct {
	asking bool    // send ASKING first: the slot is moving to this node
	groups []group // part of the batch's groups
	cmd    *redis.StringCmd
}

// batches are for reuse.
var batches = sync.Pool{New: func() any { return new(batch) }}

func newBatch() *batch { return batches.Get().(*batch) }

// release gives the batch back for reuse. It keeps nothing of the jobs.
func (b *batch) release() {
	clear(b.jobs)
	clear(b.sorted)
	clear(b.calls)
	clear(b.groups)
	clear(b.args)
	clear(b.argv)
	b.wire.Reset()
	b.jobs, b.sorted, b.calls, b.groups, b.args, b.argv = b.jobs[:0], b.sorted[:0], b.calls[:0], b.groups[:0], b.args[:0], b.argv[:0]
	b.direct = false
	batches.Put(b)
}

// assemble makes groups of the jobs, and calls of the groups.
func (b *batch) assemble() {
	jobs := b.jobs
	if slices.ContainsFunc(jobs, func(j *job) bool { return j.slot != jobs[0].slot }) {
		// By slot, and within a slot in the order of arrival.
		b.sorted = append(b.sorted, jobs...)
		jobs = b.sorted
		slices.SortStableFunc(jobs, func(a, b *job) int { return a.slot - b.slot })
	}
	start, keys, asking := 0, 0, false // of the current call
	for i, j := range jobs {
		full := len(b.groups)-start == maxGroups || keys >= maxKeys
		if i == 0 || full || asking || j.asking || j.slot != jobs[i-1].slot {
			start, keys, asking = len(b.groups), 0, j.asking
			b.calls = append(b.calls, call{asking: asking})
			clear(b.equals[:])
		}
		keys += b.join(j, start)
	}
	// Only now, since the array of groups does not move any more.
	for i, at := 0, 0; i < len(b.calls); i++ {
		end := at
		for end < len(b.groups) && b.groups[end].call == i {
			end++
		}
		b.calls[i].groups = b.groups[at:end]
		at = end
	}
}

// join puts a job into the group of its equals, among those from start on, or into
// a new one. It returns how many keys that adds to the call.
func (b *batch) join(j *job, start int) int {
	if j.mergeable {
		at := j.hash % uint64(len(b.equals))
		for ; b.equals[at] != 0; at = (at + 1) % uint64(len(b.equals)) {
			n := start + int(b.equals[at]) - 1
			if g := &b.groups[n]; g.times < maxEqualJobs && g.first.isEqual(j) {
				j.group, j.before = n, g.times
				g.times++
				return 0
			}
		}
		b.equals[at] = uint8(len(b.groups) - start + 1)
	}
	j.group, j.before = len(b.groups), 0
	b.groups = append(b.groups, group{first: j, times: 1, call: len(b.calls) - 1})
	return j.Keys()
}

// command makes the command of a call. Its arguments are part of the batch.
func (b *batch) command(ctx context.Context, c *call, by invocation) {
	start := len(b.argv)
	b.argv = append(b.argv, by.command, by.script, nil) // nil for the number of keys
	first := c.groups[0].first
	if len(c.groups) == 1 && first.Keys() == 1 && c.groups[0].times == 1 && b.clock == 0 {
		// The short form, for one job of one key: the script needs no order.
		b.argv = append(b.argv, b.arg(first.Key(0)), b.arg(first.Ask()))
		b.argv[start+2] = 1
	} else {
		keys := 0
		for i := range c.groups {
			keys += c.groups[i].first.Keys()
		}
		b.wire.Begin(keys, b.clock)
		for i := range c.groups {
			b.wire.Add(&c.groups[i].first.Group, c.groups[i].times)
		}
		for _, key := range b.wire.Keys {
			b.argv = append(b.argv, b.arg(key))
		}
		b.argv[start+2] = len(b.wire.Keys)
		for _, ask := range b.wire.Asks {
			b.argv = append(b.argv, b.arg(ask))
		}
		b.argv = append(b.argv, b.arg(b.wire.Order()))
	}
	c.cmd = redis.NewStringCmd(ctx, b.argv[start:len(b.argv):len(b.argv)]...)
}

// arg is an argument of a command. Behind a pointer, it allocates nothing.
type arg struct{ bytes []byte }

// MarshalBinary has go-redis send the bytes.
func (a *arg) MarshalBinary() ([]byte, error) { return a.bytes, nil }

// String has go-redis find the slot of a key, if the client wraps a Cluster client.
func (a *arg) String() string { return string(a.bytes) }

// arg returns an argument. Its address stays valid, since makeRoom has made args
// large enough.
func (b *batch) arg(bytes []byte) *arg {
	b.args = append(b.args, arg{bytes})
	return &b.args[len(b.args)-1]
}

// makeRoom makes room for the arguments of calls.
func (b *batch) makeRoom(calls []call) {
	n := 0
	for i := range calls {
		for j := range calls[i].groups {
			n += 1 + calls[i].groups[j].first.Keys()
		}
		n++ // the order
	}
	clear(b.args)
	clear(b.argv)
	b.args = slices.Grow(b.args[:0], n)
	b.argv = slices.Grow(b.argv[:0], n+3*len(calls))
	b.wire.Reset()
}
