package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/must"
)

// endless keeps a core busy until SCRIPT KILL, which ends only scripts that wrote nothing.
const endless = "while true do end"

// Busy runs a script that does not end, so that the server refuses nearly every command with
// BUSY. It returns once the server does. stop ends the script and waits until the server
// answers again, and may be called more than once. The end of the test does the same, and
// so does the end of d, unless that is 0, since the script takes a core from other tests.
func (s *Server) Busy(tb testing.TB, d time.Duration) (stop func()) {
	tb.Helper()
	const threshold = "lua-time-limit" // busy-reply-threshold since Redis 7.0, in milliseconds; 5000 by default
	before, err := s.configGet(threshold)
	if err != nil {
		tb.Fatalf("redistest: CONFIG GET: %v", err)
	}
	s.ConfigSet(tb, threshold, "1")

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c := redis.NewClient(&redis.Options{Network: s.network, Addr: s.addr, MaxRetries: -1, ReadTimeout: -1})
		defer func() { _ = c.Close() }()
		_ = c.Eval(ctx, endless, nil).Err() // killed
	}()
	end := sync.OnceValue(func() error {
		defer cancel()
		return s.endBusy(ended, threshold, before)
	})
	var timer *time.Timer
	stop = func() {
		tb.Helper()
		if timer != nil {
			timer.Stop()
		}
		if err := end(); err != nil {
			tb.Errorf("redistest: ending BUSY: %v", err)
		}
	}
	tb.Cleanup(stop)
	must.OK(tb, await("BUSY from "+s.addr, s.refusesWith("BUSY ")))
	if d > 0 { // from now on: the script may have been slow to start
		timer = time.AfterFunc(d, func() { _ = end() })
	}
	return stop
}

// endBusy kills the script and restores the threshold. It accepts a server that is gone.
func (s *Server) endBusy(ended <-chan struct{}, threshold, before string) error {
	for {
		if s.exited() {
			<-ended
			return nil
		}
		err := s.do("script", "kill")
		select {
		case <-ended:
			return s.do("config", "set", threshold, before)
		case <-time.After(awaitEvery):
		}
		// NOTBUSY: the script was not there yet, or its reply is still under way.
		if err != nil && !strings.Contains(err.Error(), "NOTBUSY") && !s.exited() {
			return err
		}
	}
}

// refusesWith returns nil from its function once PING is refused with that error code.
func (s *Server) refusesWith(code string) func() error {
	return func() error {
		err := s.do("ping")
		if err == nil {
			return errors.New("PING is answered")
		}
		var refusal redis.Error
		if !errors.As(err, &refusal) || !strings.HasPrefix(refusal.Error(), code) {
			return err
		}
		return nil
	}
}

func (s *Server) configGet(name string) (value string, err error) {
	err = s.ask(func(ctx context.Context, c *redis.Client) error {
		values, err := c.ConfigGet(ctx, name).Result()
		if err != nil {
			return err
		}
		var ok bool
		if value, ok = values[name]; !ok {
			return fmt.Errorf("%s: no such parameter", name)
		}
		return nil
	})
	return value, err
}
