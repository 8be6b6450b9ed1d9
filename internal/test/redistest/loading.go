package redistest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

const (
	// Loading takes loadKeys times loadDelay: longer than a test should last.
	loadKeys = 12_000
	// loadDelay is what the server waits before each key, in microseconds.
	loadDelay = "5000"
	// loadEvents is after how many bytes of its file a loading server looks at its
	// connections; 1024 is the least allowed.
	loadEvents = "1024"
	// loadKeyBytes makes the server look after every key. Otherwise commands wait for seconds.
	loadKeyBytes = 1024
	// loadPrefix begins the keys that only make the file long.
	loadPrefix = "redistest:loading:"
	// dumpName is where SAVE writes and a starting server reads.
	dumpName = "dump.rdb"
)

// makeKeys and dropKeys handle the keys under loadPrefix in one call.
const (
	makeKeys = `local value = string.rep('.', ARGV[3])
for i = 1, ARGV[2] do redis.call('SET', ARGV[1] .. i, value) end`
	dropKeys = `for i = 1, ARGV[2] do redis.call('DEL', ARGV[1] .. i) end`
)

// Loading restarts the server so that it loads its data for a minute, and refuses nearly
// every command with LOADING meanwhile. It returns once the server does. stop lets the server
// load the rest at once, and returns when it serves its data again. So does the end of the
// test. As in any restart, connections, scripts, and settings made by ConfigSet or User are
// lost. It does not work on a node of a cluster. Servers before Redis 7.0, which look at their
// connections after every 2 MB only, skip the test.
func (s *Server) Loading(tb testing.TB) (stop func()) {
	tb.Helper()
	Since(tb, 7, 0, "answers while loading")
	if err := s.startLoading(); err != nil {
		tb.Fatalf("redistest: making %s load: %v", s.addr, err)
	}
	end := sync.OnceValue(s.endLoading)
	stop = func() {
		tb.Helper()
		if err := end(); err != nil {
			tb.Errorf("redistest: ending LOADING: %v", err)
		}
	}
	tb.Cleanup(stop)
	return stop
}

func (s *Server) startLoading() error {
	dump := filepath.Join(s.dir, dumpName)
	// A later Restart must find no file. On Unix, a file that is being read can be removed.
	defer func() { _ = os.Remove(dump) }()
	err := s.ask(func(ctx context.Context, c *redis.Client) error {
		// Compressed, the keys would be too short for loadEvents.
		if err := c.ConfigSet(ctx, "rdbcompression", "no").Err(); err != nil {
			return err
		}
		if err := c.Eval(ctx, makeKeys, nil, loadPrefix, loadKeys, loadKeyBytes).Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		return c.Save(ctx).Err()
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errors.New("it was stopped")
	}
	s.kill()
	err = s.spawn(
		"--dbfilename", dumpName,
		"--key-load-delay", loadDelay,
		"--loading-process-events-interval-bytes", loadEvents,
	)
	if err != nil {
		return err
	}
	return s.awaitAnswer(func(answer string) bool { return strings.HasPrefix(answer, "-LOADING") })
}

// endLoading waits until the data is loaded, without the delay. It accepts a server that is
// gone.
func (s *Server) endLoading() error {
	if !s.live() {
		return nil
	}
	if err := s.do("config", "set", "key-load-delay", "0"); err != nil {
		return err
	}
	s.mu.Lock()
	err := s.awaitPong()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.ask(func(ctx context.Context, c *redis.Client) error {
		err := c.Eval(ctx, dropKeys, nil, loadPrefix, loadKeys).Err()
		if errors.Is(err, redis.Nil) {
			return nil // what a script without a return value answers
		}
		return err
	})
}
