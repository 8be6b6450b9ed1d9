package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Commandstat is a server's statistics of one command.
type Commandstat struct {
	Calls  int64
	Micros int64 // time spent, in microseconds
}

// Commandstats returns how often the server has run each command since it started, from
// INFO commandstats: "get", "evalsha", for subcommands "client|setinfo". Failed calls count.
// Calls refused before they ran (NOPERM, OOM, a wrong number of arguments) do not. Commands
// that a script calls count under their own name, too. Other clients count as well, and so do
// the hello and info of this method itself: exact counts need a server from [Start].
func (s *Server) Commandstats(tb testing.TB) map[string]Commandstat {
	tb.Helper()
	var info string
	err := s.ask(func(ctx context.Context, c *redis.Client) (err error) {
		info, err = c.Info(ctx, "commandstats").Result()
		return err
	})
	if err != nil {
		tb.Fatalf("redistest: INFO commandstats: %v", err)
	}
	calls, err := parseCommandstats(info)
	if err != nil {
		tb.Fatalf("redistest: INFO commandstats: %v", err)
	}
	return calls
}

// Calls returns how often the server has run command, in lower case; see [Server.Commandstats].
func (s *Server) Calls(tb testing.TB, command string) int64 {
	tb.Helper()
	return s.Commandstats(tb)[command].Calls
}

// Processor returns how much processor time the server has used, from INFO cpu.
func (s *Server) Processor(tb testing.TB) (used time.Duration) {
	tb.Helper()
	var info string
	err := s.ask(func(ctx context.Context, c *redis.Client) (err error) {
		info, err = c.Info(ctx, "cpu").Result()
		return err
	})
	for _, name := range []string{"used_cpu_user:", "used_cpu_sys:"} {
		var seconds float64
		if err == nil {
			_, rest, _ := strings.Cut(info, "\n"+name)
			_, err = fmt.Sscan(rest, &seconds)
		}
		used += time.Duration(seconds * float64(time.Second))
	}
	if err != nil {
		tb.Fatalf("redistest: INFO cpu: %v", err)
	}
	return used
}

// parseCommandstats reads lines such as
//
//	cmdstat_get:calls=2,usec=9,usec_per_call=4.50,rejected_calls=0,failed_calls=0
func parseCommandstats(info string) (map[string]Commandstat, error) {
	calls := map[string]Commandstat{}
	for line := range strings.Lines(info) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_")
		if !ok {
			continue // the section's title
		}
		command, fields, _ := strings.Cut(line, ":")
		var stat Commandstat
		if _, err := fmt.Sscanf(fields, "calls=%d,usec=%d", &stat.Calls, &stat.Micros); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		calls[command] = stat
	}
	return calls, nil
}
