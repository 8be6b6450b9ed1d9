package redistest

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

// ScriptFlush makes the server forget all scripts, so that EVALSHA answers NOSCRIPT.
func (s *Server) ScriptFlush(tb testing.TB) {
	tb.Helper()
	s.must(tb, "script", "flush")
}

// ConfigSet changes one configuration parameter while the server runs. Restart undoes it.
func (s *Server) ConfigSet(tb testing.TB, name, value string) {
	tb.Helper()
	s.must(tb, "config", "set", name, value)
}

// KillClients closes all connections of ordinary clients from the server's side, as when a
// server restarts or runs short of memory, and returns how many there were.
func (s *Server) KillClients(tb testing.TB) int64 {
	tb.Helper()
	var killed int64
	err := s.ask(func(ctx context.Context, c *redis.Client) (err error) {
		killed, err = c.ClientKillByFilter(ctx, "type", "normal", "skipme", "yes").Result()
		return err
	})
	if err != nil {
		tb.Fatalf("redistest: CLIENT KILL: %v", err)
	}
	return killed
}

// noMaster is a port of the loopback interface without a listener: tcpmux is not in use, and
// only root could start a server there.
const noMaster = "1"

// ReadOnly makes the server a replica of a master that is gone: it answers reads and
// refuses writes with READONLY, until Writable. It does not work on a node of a cluster.
func (s *Server) ReadOnly(tb testing.TB) {
	tb.Helper()
	s.ConfigSet(tb, "replica-serve-stale-data", "yes")
	s.must(tb, "replicaof", loopback, noMaster)
}

// MasterDown is [Server.ReadOnly] for a replica that serves no stale data: it refuses reads
// and all scripts with MASTERDOWN, until Writable. It refuses plain writes with READONLY
// here, too: Redis checks that first, and can't know what a script writes before it runs.
func (s *Server) MasterDown(tb testing.TB) {
	tb.Helper()
	s.ConfigSet(tb, "replica-serve-stale-data", "no")
	s.must(tb, "replicaof", loopback, noMaster)
}

// Writable ends ReadOnly and MasterDown: the server is a master again, with its data.
func (s *Server) Writable(tb testing.TB) {
	tb.Helper()
	s.must(tb, "replicaof", "no", "one")
	s.ConfigSet(tb, "replica-serve-stale-data", "yes")
}

// FillMemory lowers the server's memory limit below what it uses, and forbids eviction:
// commands that may need memory are refused with OOM, until FreeMemory.
func (s *Server) FillMemory(tb testing.TB) {
	tb.Helper()
	s.ConfigSet(tb, "maxmemory-policy", "noeviction")
	s.ConfigSet(tb, "maxmemory", "1")
}

// FreeMemory ends FillMemory by removing the memory limit.
func (s *Server) FreeMemory(tb testing.TB) {
	tb.Helper()
	s.ConfigSet(tb, "maxmemory", "0")
}
