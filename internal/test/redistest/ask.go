package redistest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// commandTimeout bounds what this package itself asks a running server.
	commandTimeout = 10 * time.Second
	// awaitTimeout bounds the wait for a state that servers reach on their own, such as a
	// failover: seconds on an idle machine.
	awaitTimeout = 60 * time.Second
	// awaitEvery is how often such a state is looked for.
	awaitEvery = 20 * time.Millisecond
)

// timeout returns a context for one question of this package to a server. It is not the
// test's context, which is done by the time cleanups run.
func timeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), commandTimeout)
}

// ask hands f a client of its own, which neither retries nor knows of earlier failures.
func (s *Server) ask(f func(ctx context.Context, c *redis.Client) error) error {
	ctx, cancel := timeout()
	defer cancel()
	c := redis.NewClient(&redis.Options{
		Network: s.network, Addr: s.addr,
		MaxRetries: -1, PoolSize: 1, ContextTimeoutEnabled: true,
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
	for deadline := time.Now().Add(awaitTimeout); ; time.Sleep(awaitEvery) {
		err := ready()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redistest: waited %v for %s: %w", awaitTimeout, what, err)
		}
	}
}
