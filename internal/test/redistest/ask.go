package redistest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// commandTimeout bounds this package's own commands to a running server. A busy machine can
	// keep a server from running for seconds.
	commandTimeout = time.Minute
	// awaitTimeout bounds the wait for a state that servers reach by themselves, such as the
	// end of a failover, which takes seconds on an idle machine.
	awaitTimeout = 3 * time.Minute
	// awaitEvery is how often such a state is checked.
	awaitEvery = 20 * time.Millisecond
)

// timeout returns a context for one command of this package. It is not derived from the
// test's context, which is done when cleanups run.
func timeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), commandTimeout)
}

// ask calls f with a new client, which neither retries nor remembers earlier failures.
func (s *Server) ask(f func(ctx context.Context, c *redis.Client) error) error {
	ctx, cancel := timeout()
	defer cancel()
	c := redis.NewClient(&redis.Options{
		Network: s.network, Addr: s.addr,
		MaxRetries: -1, PoolSize: 1, ContextTimeoutEnabled: true,
		DialTimeout: commandTimeout, ReadTimeout: commandTimeout, WriteTimeout: commandTimeout,
	})
	defer func() { _ = c.Close() }()
	return f(ctx, c)
}

// do runs one command and drops its reply.
func (s *Server) do(args ...any) error {
	return s.ask(func(ctx context.Context, c *redis.Client) error {
		if err := c.Do(ctx, args...).Err(); err != nil {
			return fmt.Errorf("%v to %s: %w", args, s.addr, err)
		}
		return nil
	})
}

// must runs one command and fails the test unless it succeeds.
func (s *Server) must(tb testing.TB, args ...any) {
	tb.Helper()
	if err := s.do(args...); err != nil {
		tb.Fatalf("redistest: %v", err)
	}
}

// await calls ready until it returns nil, and returns its last error after awaitTimeout.
func await(what string, ready func() error) error {
	for deadline := time.Now().Add(awaitTimeout); ; time.Sleep(awaitEvery) { // no server tells of it
		err := ready()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redistest: waited %v for %s: %w", awaitTimeout, what, err)
		}
	}
}
