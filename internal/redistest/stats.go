package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Commandstats returns how often the server has run each command since it started, from
// INFO commandstats: "get", "evalsha", for subcommands "client|setinfo". Failed calls count,
// calls refused before they ran (NOPERM, OOM, a wrong number of arguments) do not; what a
// script calls counts under its own name too. Other clients count as well, and so do the
// hello and info of this very question: exact counts need a server from [Start].
func (s *Server) Commandstats(tb testing.TB) map[string]int64 {
	tb.Helper()
	ctx, cancel := timeout()
	defer cancel()
	c := redis.NewClient(&redis.Options{Network: s.network, Addr: s.addr})
	defer func() { _ = c.Close() }()
	info, err := c.Info(ctx, "commandstats").Result()
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
	return s.Commandstats(tb)[command]
}

// parseCommandstats reads lines such as
//
//	cmdstat_get:calls=2,usec=9,usec_per_call=4.50,rejected_calls=0,failed_calls=0
func parseCommandstats(info string) (map[string]int64, error) {
	calls := map[string]int64{}
	for line := range strings.Lines(info) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "cmdstat_")
		if !ok {
			continue // the section's title
		}
		command, fields, _ := strings.Cut(line, ":calls=")
		count, _, _ := strings.Cut(fields, ",")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		calls[command] = n
	}
	return calls, nil
}
