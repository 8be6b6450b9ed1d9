package redisstore

// The round trip of a batch: sending its calls, reading the replies, and handing
// each job its answer. The goroutine that runs the batch does all of it.

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
)

// sender is what a round trip needs of a Redis client.
type sender interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

var limitsScript = redis.NewScript(script.Source)

// invocation is what the command of a call begins with. There are two, made once, so
// that they allocate nothing.
type invocation struct{ command, script any }

var (
	byDigest = invocation{"evalsha", limitsScript.Hash()}
	bySource = invocation{"eval", script.Source}
)

// run makes the round trip, and writes each job's answer. now is the time to decide
// at, or 0 for Redis's own. It takes a second round trip if the node does not know
// the script yet, and another one for groups that were not decided because of a
// bad value beside them.
func (b *batch) run(ctx context.Context, c sender, now int64) {
	b.assemble()
	b.clock = now
	b.send(ctx, c, b.calls, byDigest)
	var again []call
	for i := range b.calls {
		// A node that has not seen the script, or has forgotten it in a restart, a
		// failover or a SCRIPT FLUSH, has not run it either.
		if err := b.calls[i].cmd.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			again = append(again, b.calls[i])
		}
	}
	if again != nil {
		b.send(ctx, c, again, bySource)
		for i, n := 0, 0; n < len(again); i++ {
			if redis.HasErrorPrefix(b.calls[i].cmd.Err(), "NOSCRIPT") {
				b.calls[i], n = again[n], n+1
			}
		}
	}
	for i := range b.calls {
		b.calls[i].read()
	}
	b.retryAlone(ctx, c)
	for _, j := range b.jobs {
		g := &b.groups[j.group]
		j.at, j.reply, j.err = g.at, g.reply, g.err
	}
}

// send sends calls, and waits for their replies. Errors are in the commands.
func (b *batch) send(ctx context.Context, c sender, calls []call, by invocation) {
	b.makeRoom(calls)
	for i := range calls {
		b.command(ctx, &calls[i], by)
	}
	if len(calls) == 1 && !calls[0].asking {
		_ = c.Process(ctx, calls[0].cmd)
		return
	}
	pipe := c.Pipeline()
	for i := range calls {
		if calls[i].asking {
			_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "asking"))
		}
		_ = pipe.Process(ctx, calls[i].cmd)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		// Without a connection, go-redis does not set the error of each command.
		for i := range calls {
			if cmd := calls[i].cmd; cmd.Err() == nil && cmd.Val() == "" {
				cmd.SetErr(err)
			}
		}
	}
}

// read takes the reply apart. Jobs share its memory.
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

// retryAlone sends the groups of some calls again, each in a call of its own: the
// calls that failed because of a value that the script can't read. Such a call has
// written nothing, and only the group of that value is to fail.
func (b *batch) retryAlone(ctx context.Context, c sender) {
	var again []call
	for i := range b.calls {
		failed := &b.calls[i]
		if len(failed.groups) < 2 || failed.cmd.Err() == nil || classOf(failed.cmd.Err()) != store.ClassValue {
			continue
		}
		for n := range failed.groups {
			failed.groups[n].err = nil
			again = append(again, call{groups: failed.groups[n : n+1]})
		}
	}
	if again == nil {
		return
	}
	b.send(ctx, c, again, byDigest)
	for i := range again {
		again[i].read()
	}
}

// nodeError returns what the round trip says of the node's health: nil if it
// answered any group, if only to say that a key is not its own.
func (b *batch) nodeError() error {
	var failed error
	for i := range b.groups {
		err := b.groups[i].err
		if err == nil || isAboutKey(classOf(err)) {
			return nil
		}
		failed = err
	}
	return failed
}

// finishExcept tells the owners of the batch's jobs that there is an answer, except
// the owner that ran the batch. leader is its job, or nil.
func (b *batch) finishExcept(leader *job) {
	for _, j := range b.jobs {
		if j != leader {
			j.finish()
		}
	}
}
