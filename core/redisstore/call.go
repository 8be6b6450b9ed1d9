package redisstore

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
)

//go:embed scripts/limits.lua
var limitsSource string

var limitsScript = redis.NewScript(limitsSource)

// operation is what the script is asked to do.
type operation byte

const (
	take   operation = 't'
	peek   operation = 'p'
	refund operation = 'r'
	reset  operation = 'x'
)

// call is one call of the script: some checks of one node.
type call struct {
	op     operation
	slot   int
	clock  func() int64
	checks []int // indexes of the store's checks
	keys   []string
	args   [][]byte
	reply  string
	err    error
}

func (c *call) add(index int, key string, check *core.Check, charged int64) {
	at := slices.Index(c.keys, key)
	if at < 0 {
		at = len(c.keys)
		c.keys = append(c.keys, key)
	}
	c.checks = append(c.checks, index)
	c.args = append(c.args, appendCheck(nil, at+1, check, charged))
}

// command returns the call as a command, by the script's digest or by its source.
func (c *call) command(ctx context.Context, by, script string) *redis.Cmd {
	args := make([]any, 0, 4+len(c.keys)+len(c.args))
	args = append(args, by, script, len(c.keys))
	for _, k := range c.keys {
		args = append(args, k)
	}
	now := int64(0)
	if c.clock != nil {
		now = c.clock()
	}
	args = append(args, append7([]byte{byte(c.op)}, now))
	for _, a := range c.args {
		args = append(args, a)
	}
	return redis.NewCmd(ctx, args...)
}

// run makes the calls: those of several nodes at once, in the time of one.
func (s *Store) run(ctx context.Context, calls []*call) error {
	if len(calls) == 0 {
		return nil
	}
	s.send(ctx, calls, "evalsha", limitsScript.Hash())
	var unknown []*call
	for _, c := range calls {
		// A node that has not seen the script, or has forgotten it in a restart,
		// failover or SCRIPT FLUSH, has not run it either.
		if c.err != nil && redis.HasErrorPrefix(c.err, "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		s.send(ctx, unknown, "eval", limitsSource)
	}
	for _, c := range calls {
		if c.err != nil {
			return fmt.Errorf("weblimit: redis: %w", c.err)
		}
	}
	return nil
}

func (s *Store) send(ctx context.Context, calls []*call, by, script string) {
	if len(calls) == 1 {
		cmd := calls[0].command(ctx, by, script)
		_ = s.client.Process(ctx, cmd) // the error is the command's, too
		calls[0].reply, calls[0].err = cmd.Text()
		return
	}
	pipe := s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = c.command(ctx, by, script)
		_ = pipe.Process(ctx, cmds[i])
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, c := range calls {
		c.reply, c.err = cmds[i].Text()
	}
}

const (
	replyHead  = 7
	replyCheck = 1 + 4*7
)

// answer fills in the results of the call's checks.
func (c *call) answer(checks []core.Check, results []core.Result) error {
	if len(c.reply) != replyHead+replyCheck*len(c.checks) {
		return fmt.Errorf("weblimit: redis: script replied %d bytes to %d checks", len(c.reply), len(c.checks))
	}
	now := get7(c.reply)
	for n, i := range c.checks {
		r := c.reply[replyHead+n*replyCheck:]
		reading := core.Reading{Charged: r[0] == 1, At: now}
		for k := range reading.Numbers {
			reading.Numbers[k] = get7(r[1+7*k:])
		}
		cost := checks[i].Cost
		if c.op == refund {
			cost = 0
		}
		results[i] = checks[i].Rule.Result(cost, reading)
	}
	return nil
}

// maxCost is what the script takes for any larger cost: no limit holds as much,
// and no product of it is too large to compare.
const maxCost = 1 << 52

// appendCheck writes a check as the script reads it: see scripts/limits.lua.
func appendCheck(dst []byte, key int, check *core.Check, charged int64) []byte {
	scale := check.Rule.Scale()
	shadow := byte(0)
	if check.Shadow {
		shadow = 1
	}
	dst = append(dst, byte(key), shadow)
	dst = binary.BigEndian.AppendUint32(dst, check.Rule.ID())
	dst = append(dst, byte(check.Rule.Algorithm))
	dst = binary.BigEndian.AppendUint32(dst, uint32(scale.Tick))
	dst = append7(dst, scale.Unit)
	dst = append7(dst, scale.Rate)
	dst = append7(dst, scale.Capacity)
	dst = append7(dst, min(check.Cost, maxCost))
	dst = append7(dst, check.Rule.Offset(check.Key))
	dst = append7(dst, charged)
	return appendForm(dst, check.Rule.Algorithm, scale)
}

// appendForm writes what must be known of a rule to read its stored state later.
func appendForm(dst []byte, algorithm core.Algorithm, scale core.Scale) []byte {
	tick := byte(0)
	switch scale.Tick {
	case 1000:
		tick = 1
	case 1_000_000:
		tick = 2
	}
	unit := minimal(scale.Unit)
	var rate []byte
	if scale.Rate > 1 {
		rate = minimal(scale.Rate)
	}
	dst = append(dst, byte(algorithm)<<4|tick, byte(len(unit)<<4|len(rate)))
	dst = append(dst, unit...)
	return append(dst, rate...)
}

// minimal returns n > 0 big-endian in as few bytes as it takes.
func minimal(n int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(n))
	for b[0] == 0 {
		b = b[1:]
	}
	return b
}

func append7(dst []byte, n int64) []byte {
	return append(dst, byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func get7(s string) int64 {
	_ = s[6]
	return int64(s[0])<<48 | int64(s[1])<<40 | int64(s[2])<<32 | int64(s[3])<<24 | int64(s[4])<<16 | int64(s[5])<<8 | int64(s[6])
}
