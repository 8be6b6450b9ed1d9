package redisstore

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
)

var limitsScript = redis.NewScript(script.Source)

// What commands begin with, made once so that they allocate nothing.
var (
	evalsha, eval any = "evalsha", "eval"
	digest, code  any = limitsScript.Hash(), script.Source
)

const (
	// maxGroups bounds how long one call holds Redis: to some 0.2 ms, where checks
	// are of any kind but logs. See maxWork for those.
	maxGroups = 64

	// maxParts bounds how many parts a flight takes along.
	maxParts = 512

	// maxTimes is how many equal parts a group can stand for: the script answers
	// with such a number and a bit, and failedGroup is neither.
	maxTimes = 126

	// maxKeys ends a call with its group that reaches it. Lua can pass on some 8000.
	maxKeys = 512
)

// caller is what flights need of a client.
type caller interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// flight is one round trip to a node: the parts of any number of requests, in
// calls of up to maxGroups groups each. Equal parts are one group. It is made
// under way by one of the owners of its parts, its leader, or by a goroutine
// where none can.
type flight struct {
	parts  []*part
	calls  []call
	groups []group
	args   []arg
	argv   []any
	slots  [2 * maxGroups]uint8 // by hash: the group of the call at work, from 1
	order  script.Call
	clock  int64 // that the script is to decide at: 0 for Redis's own
	io     *ioContext
	direct bool // led by who found a place free, from its start
}

// group is what equal parts ask together.
type group struct {
	first *part
	times int
	call  int
	at    int64
	reply string
	err   error
}

// call is one call of the script.
type call struct {
	asking bool
	groups []group // its share of the flight's
	cmd    *redis.StringCmd
}

// arg is an argument of a command. Behind a pointer it allocates nothing.
type arg struct{ bytes []byte }

// MarshalBinary has go-redis send the bytes.
func (a *arg) MarshalBinary() ([]byte, error) { return a.bytes, nil }

// String has go-redis find the slot of a key, where a client of somebody's own
// wraps its Cluster client.
func (a *arg) String() string { return string(a.bytes) }

var flights = sync.Pool{New: func() any { return new(flight) }}

func newFlight() *flight { return flights.Get().(*flight) }

func (f *flight) release() {
	clear(f.parts)
	clear(f.calls)
	clear(f.groups)
	clear(f.args)
	clear(f.argv)
	f.order.Reset()
	f.parts, f.calls, f.groups, f.args, f.argv = f.parts[:0], f.calls[:0], f.groups[:0], f.args[:0], f.argv[:0]
	f.direct = false
	flights.Put(f)
}

// assemble makes groups of the parts and calls of the groups.
func (f *flight) assemble() {
	if len(f.parts) > 1 {
		// A call has the keys of one slot. The order within a slot is that of arrival.
		slices.SortStableFunc(f.parts, func(a, b *part) int { return a.slot - b.slot })
	}
	start, keys := 0, 0 // of the call at work
	asking := false
	for i, p := range f.parts {
		full := len(f.groups)-start == maxGroups || keys >= maxKeys
		if i == 0 || full || asking || p.asking || p.slot != f.parts[i-1].slot {
			start, keys, asking = len(f.groups), 0, p.asking
			f.calls = append(f.calls, call{asking: asking})
			clear(f.slots[:])
		}
		keys += f.join(p, start)
	}
	// The groups are where they stay.
	for i, at := 0, 0; i < len(f.calls); i++ {
		n := at
		for n < len(f.groups) && f.groups[n].call == i {
			n++
		}
		f.calls[i].groups = f.groups[at:n]
		at = n
	}
}

// join puts p into the group of its equals among those from start on, or into a
// new one. It returns how many keys the new one has.
func (f *flight) join(p *part, start int) int {
	if p.equal {
		at := p.hash % uint64(len(f.slots))
		for ; f.slots[at] != 0; at = (at + 1) % uint64(len(f.slots)) {
			g := &f.groups[start+int(f.slots[at])-1]
			if g.times < maxTimes && g.first.same(p) {
				p.of, p.nth = start+int(f.slots[at])-1, g.times
				g.times++
				return 0
			}
		}
		f.slots[at] = uint8(len(f.groups) - start + 1)
	}
	p.of, p.nth = len(f.groups), 0
	f.groups = append(f.groups, group{first: p, times: 1, call: len(f.calls) - 1})
	return p.Keys()
}

// command makes the command of a call. Its arguments are part of the flight.
func (f *flight) command(ctx context.Context, c *call, by, source any) {
	start := len(f.argv)
	f.argv = append(f.argv, by, source, nil)
	first := c.groups[0].first
	if len(c.groups) == 1 && first.Keys() == 1 && c.groups[0].times == 1 && f.clock == 0 {
		f.argv = append(f.argv, f.arg(first.Key(0)), f.arg(first.Ask()))
		f.argv[start+2] = 1
	} else {
		keys := 0
		for i := range c.groups {
			keys += c.groups[i].first.Keys()
		}
		f.order.Begin(keys, f.clock)
		for i := range c.groups {
			f.order.Add(&c.groups[i].first.Group, c.groups[i].times)
		}
		for _, key := range f.order.Keys {
			f.argv = append(f.argv, f.arg(key))
		}
		f.argv[start+2] = len(f.order.Keys)
		for _, ask := range f.order.Asks {
			f.argv = append(f.argv, f.arg(ask))
		}
		f.argv = append(f.argv, f.arg(f.order.Order()))
	}
	c.cmd = redis.NewStringCmd(ctx, f.argv[start:len(f.argv):len(f.argv)]...)
}

// arg returns a place for an argument that stays where it is: args are made
// large enough before the first.
func (f *flight) arg(b []byte) *arg {
	f.args = append(f.args, arg{b})
	return &f.args[len(f.args)-1]
}

// reserve makes room for the arguments of all calls.
func (f *flight) reserve(calls []call) {
	n := 0
	for i := range calls {
		for j := range calls[i].groups {
			n += 1 + calls[i].groups[j].first.Keys()
		}
		n++ // the order
	}
	clear(f.args)
	clear(f.argv)
	f.args = slices.Grow(f.args[:0], n)
	f.argv = slices.Grow(f.argv[:0], n+3*len(calls))
	f.order.Reset()
}

// run makes the round trip, and gives each part its answer.
func (f *flight) run(ctx context.Context, client caller, now int64) {
	f.assemble()
	f.clock = now
	f.send(ctx, client, f.calls, evalsha, digest)
	var again []call
	for i := range f.calls {
		// A node that has not seen the script, or has forgotten it in a restart,
		// failover or SCRIPT FLUSH, has not run it either.
		if err := f.calls[i].cmd.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			again = append(again, f.calls[i])
		}
	}
	if again != nil {
		f.send(ctx, client, again, eval, code)
		for i, n := 0, 0; n < len(again); i++ {
			if redis.HasErrorPrefix(f.calls[i].cmd.Err(), "NOSCRIPT") {
				f.calls[i], n = again[n], n+1
			}
		}
	}
	for i := range f.calls {
		f.calls[i].read()
	}
	f.alone(ctx, client)
	f.answer()
}

func (f *flight) send(ctx context.Context, client caller, calls []call, by, source any) {
	f.reserve(calls)
	for i := range calls {
		f.command(ctx, &calls[i], by, source)
	}
	if len(calls) == 1 && !calls[0].asking {
		_ = client.Process(ctx, calls[0].cmd) // the error is the command's, too
		return
	}
	pipe := client.Pipeline()
	for i := range calls {
		if calls[i].asking {
			_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "asking"))
		}
		_ = pipe.Process(ctx, calls[i].cmd)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		for i := range calls {
			if cmd := calls[i].cmd; cmd.Err() == nil && cmd.Val() == "" {
				cmd.SetErr(err) // without a connection go-redis tells none of the commands
			}
		}
	}
}

// read takes the reply apart. Parts share it without copies.
func (c *call) read() {
	text, err := c.cmd.Result()
	var reply script.Reply
	if err == nil {
		reply, err = script.ReadReply(text)
	}
	if err != nil {
		for i := range c.groups {
			c.groups[i].err = err
		}
		return
	}
	for i := range c.groups {
		g := &c.groups[i]
		var failure string
		g.at = reply.Now
		if g.reply, failure, g.err = reply.Next(&g.first.Group); failure != "" {
			g.err = replyError(strings.TrimPrefix(failure, "-"))
		}
	}
}

// replyError is an error that Redis gave to a command within the script.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError makes it a [redis.Error].
func (replyError) RedisError() {}

// alone sends the groups of calls again that failed on one of their values, each
// by itself: such a call has written nothing, and the others must not suffer.
func (f *flight) alone(ctx context.Context, client caller) {
	var again []call
	for i := range f.calls {
		c := &f.calls[i]
		if len(c.groups) < 2 || c.cmd.Err() == nil || classOf(c.cmd.Err()) != store.ClassValue {
			continue
		}
		for j := range c.groups {
			c.groups[j].err = nil
			again = append(again, call{groups: c.groups[j : j+1]})
		}
	}
	if again == nil {
		return
	}
	f.send(ctx, client, again, evalsha, digest)
	for i := range again {
		again[i].read()
	}
}

// answer hands the groups' answers to their parts.
func (f *flight) answer() {
	for _, p := range f.parts {
		g := &f.groups[p.of]
		p.at, p.reply, p.err = g.at, g.reply, g.err
	}
}

// outcome is how the node fared: nil if it answered, if only to say that a key is
// not its own.
func (f *flight) outcome() error {
	var failed error
	for i := range f.groups {
		err := f.groups[i].err
		if err == nil || aboutKey(classOf(err)) {
			return nil
		}
		failed = err
	}
	return failed
}
