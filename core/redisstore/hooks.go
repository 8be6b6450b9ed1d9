package redisstore

// Hooks of the caller's client, which trace and measure. The store sends by a client of its own on the same
// connections, and go-redis drops the hooks on the way there in some releases.

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// observed returns own, whose round trips the hooks of from see: those that from has now. own was made of from
// by WithTimeout, which keeps hooks in releases of go-redis before 9.16. Since 9.9, Client.Conn keeps them: such
// a Conn never takes a connection, since the last of its hooks hands everything to own.
func observed(from, own *redis.Client) sender {
	if withTimeoutKeepsHooks() {
		return own
	}
	conn := from.Conn()
	conn.AddHook(sentBy{own})
	return conn
}

// sentBy is a hook that sends everything by a client of its own, in place of what comes after it.
type sentBy struct{ client *redis.Client }

// DialHook implements [redis.Hook].
func (sentBy) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (s sentBy) ProcessHook(redis.ProcessHook) redis.ProcessHook { return s.client.Process }

// ProcessPipelineHook implements [redis.Hook].
func (s sentBy) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		pipe := s.client.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd) // which only queues it
		}
		_, err := pipe.Exec(ctx)
		return err
	}
}

// withTimeoutKeepsHooks tries which release this is, on a client whose last hook sends nothing.
var withTimeoutKeepsHooks = sync.OnceValue(func() (kept bool) {
	client := redis.NewClient(&redis.Options{})
	defer func() { _ = client.Close() }()
	client.AddHook(noticing{&kept})
	copied := client.WithTimeout(time.Second)
	copied.AddHook(noticing{new(bool)})
	ctx := context.Background()
	_ = copied.Process(ctx, redis.NewStatusCmd(ctx, "ping"))
	return kept
})

// noticing is a hook that notices that it is called, and sends nothing.
type noticing struct{ called *bool }

// DialHook implements [redis.Hook].
func (noticing) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (n noticing) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error {
		*n.called = true
		return nil
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (noticing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
