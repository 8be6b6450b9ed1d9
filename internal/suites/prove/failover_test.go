package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

// dialerOf connects to the address that a file has at the moment, as if a name was resolved.
func dialerOf(path string) dialer {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		address, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", string(address))
	}
}

// pair is a master and its replica.
type pair struct {
	testing.TB
	master, replica *redis.Client
	path            string // of the file that has the master's address
}

// TestFailover has the replica become the master, and back, while operations are under way. Nothing that
// was answered is lost: the master waits until the replica has it.
func TestFailover(t *testing.T) {
	p := &pair{TB: t, path: filepath.Join(t.TempDir(), "master")}
	quick := []string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--repl-backlog-size", "64mb"}
	one, other := redistest.StartTCP(t, quick...), redistest.StartTCP(t, quick...)
	p.master, p.replica = p.client(one), p.client(other)
	p.name()
	p.follow()
	processes := startAll(t, order{AddrFile: p.path})
	each(t, 0.1, func(seed uint64, count *tally) *history {
		h := newHistory("failover", seed, long...)
		h.job.Clients, h.job.Keys, h.job.Each, h.job.Patience, h.job.Backoff, h.job.Pause = 16, 1+int(seed%2), 20, 100_000, 200_000, 20_000
		r := rand.New(rand.NewPCG(seed, 3))
		var all sync.WaitGroup
		all.Go(func() {
			time.Sleep(micros(5000 + r.Int64N(100_000)))
			p.failover()
			count.note("failovers", 1)
		})
		for i := range h.job.Limits { // or denials would change something
			l := &h.job.Limits[i]
			l.After, l.Within, l.For, l.Factor, l.Max = 0, 0, 0, 0, 0
		}
		together(t, h, processes)
		all.Wait()
		h.operations = slices.DeleteFunc(h.operations, (*operation).onlyReads)
		return h
	})
}

// client returns a client that sends FAILOVER once, however long that takes on a busy machine.
func (p *pair) client(s *redistest.Server) *redis.Client {
	return s.ClientWith(p, &redis.Options{ReadTimeout: patience})
}

// onlyReads reports whether an answer needed no write. A master that has become a replica can still give
// such an answer, late: docs/run/guarantees.md.
func (o *operation) onlyReads() bool {
	if o.unknown() {
		return false
	}
	for i := range o.Results {
		if o.Kind != take && o.Kind != peek || o.Results[i].Charged && o.Checks[i].Cost > 0 {
			return false
		}
	}
	return len(o.Results) > 0
}

// name writes the master's address to the file.
func (p *pair) name() {
	next := p.path + ".next"
	if err := os.WriteFile(next, []byte(p.master.Options().Addr), 0o600); err != nil {
		p.Error(err)
	}
	if err := os.Rename(next, p.path); err != nil {
		p.Error(err)
	}
}

// follow makes the replica one, and waits until it has all.
func (p *pair) follow() {
	host, port, _ := net.SplitHostPort(p.master.Options().Addr)
	if err := p.replica.SlaveOf(context.Background(), host, port).Err(); err != nil {
		p.Error(err)
	}
	p.await(p.replica, "role:slave", "master_link_status:up")
	p.await(p.master, "connected_slaves:1", "state=online")
}

func (p *pair) failover() {
	if err := p.master.Do(context.Background(), "failover").Err(); err != nil {
		p.Error(err)
	}
	p.master, p.replica = p.replica, p.master
	p.await(p.master, "role:master")
	p.name()
	if err := p.replica.ClientKillByFilter(context.Background(), "type", "normal", "skipme", "yes").Err(); err != nil {
		p.Error(err)
	}
	p.await(p.replica, "role:slave", "master_link_status:up")
	p.await(p.master, "connected_slaves:1", "state=online")
}

// await waits until a server says all that is wanted of its replication.
func (p *pair) await(c *redis.Client, wanted ...string) {
	var said string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		said = c.Info(context.Background(), "replication").Val()
		all := true
		for _, w := range wanted {
			all = all && strings.Contains(said, w)
		}
		if all {
			return
		}
	}
	p.Error(fmt.Errorf("%s never said %q:\n%s", c.Options().Addr, wanted, said))
}
