package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/must"
)

// MasterName is the name of the master that the sentinels of [StartSentinel] watch.
const MasterName = "redistest"

// Sentinel is a master, its replicas, and the sentinels that replace it when it dies. Its
// methods may be called concurrently.
type Sentinel struct {
	servers   []*Server // the first one began as the master
	sentinels []*Server
}

// StartSentinel starts a master, two replicas and three sentinels for this test alone, on
// loopback, and stops them when the test ends. It returns once the sentinels know each other
// and the replicas are in sync. Two sentinels have to agree that the master is dead, which
// they notice after one and a half seconds, or as [Sentinel.DownAfter] says.
func StartSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	requireBinary(tb)
	s := must.Get(startSentinel(2, 3))(tb)
	tb.Cleanup(s.stop)
	return s
}

// Servers returns the master and the replicas, dead ones too; first the one that began as
// the master. A server that was killed and restarted comes back empty, as a replica. Restart
// a master only after AwaitFailover, or its replicas copy the empty data.
func (s *Sentinel) Servers() []*Server { return slices.Clone(s.servers) }

// Sentinels returns the sentinels, dead ones too.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.sentinels) }

// Client returns a new client that asks the sentinels for the master, with go-redis's
// defaults, closed when the test ends.
func (s *Sentinel) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return s.ClientWith(tb, &redis.FailoverOptions{})
}

// ClientWith is [Sentinel.Client] with the test's options. It sets MasterName, and SentinelAddrs unless
// the options do.
func (s *Sentinel) ClientWith(tb testing.TB, options *redis.FailoverOptions) *redis.Client {
	tb.Helper()
	o := *options
	o.MasterName = MasterName
	if o.SentinelAddrs == nil {
		for _, sentinel := range s.sentinels {
			o.SentinelAddrs = append(o.SentinelAddrs, sentinel.addr)
		}
	}
	c := redis.NewFailoverClient(&o)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Master returns the current master, as a live sentinel sees it. For a while after a master
// died, that is the dead one.
func (s *Sentinel) Master(tb testing.TB) *Server {
	tb.Helper()
	errs := []error{errors.New("redistest: no live sentinel answers")}
	for _, sentinel := range s.sentinels {
		if !sentinel.live() {
			continue
		}
		master, err := s.masterBy(sentinel)
		if err == nil {
			return master
		}
		errs = append(errs, err)
	}
	tb.Fatal(errors.Join(errs...))
	return nil
}

// DownAfter has the live sentinels take a server for dead that has not answered for so long, and a master that
// says that it is a replica. A server that has been silent for so long already is dead at once.
func (s *Sentinel) DownAfter(tb testing.TB, d time.Duration) {
	tb.Helper()
	for _, sentinel := range s.sentinels {
		if sentinel.live() {
			sentinel.must(tb, "sentinel", "set", MasterName, "down-after-milliseconds", d.Milliseconds())
		}
	}
}

// AwaitFailover waits until all live sentinels agree on a live master other than old, and all
// other live servers have its data. It returns the new master.
func (s *Sentinel) AwaitFailover(tb testing.TB, old *Server) *Server {
	tb.Helper()
	var master *Server
	must.OK(tb, await("a failover by sentinels", func() (err error) {
		if master, err = s.agreed(); err != nil {
			return err
		}
		if master == old {
			return fmt.Errorf("%s is still the master", old.addr)
		}
		return s.following(master)
	}))
	return master
}

// masterBy asks one sentinel for the master. It may name the new one before the failover is
// complete.
func (s *Sentinel) masterBy(sentinel *Server) (*Server, error) {
	var addr []string
	err := sentinel.ask(func(ctx context.Context, c *redis.Client) (err error) {
		addr, err = c.Do(ctx, "sentinel", "get-master-addr-by-name", MasterName).StringSlice()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking sentinel %s for the master: %w", sentinel.addr, err)
	}
	if len(addr) != 2 {
		return nil, fmt.Errorf("sentinel %s knows a master at %q", sentinel.addr, addr)
	}
	return s.byAddr(addr[0], addr[1])
}

// byAddr returns the server that listens there.
func (s *Sentinel) byAddr(host, port string) (*Server, error) {
	for _, server := range s.servers {
		if server.addr == net.JoinHostPort(host, port) {
			return server, nil
		}
	}
	return nil, fmt.Errorf("a master at %s:%s is none of ours", host, port)
}

// watchedMaster asks one sentinel for the master that it watches. The sentinel that leads a
// failover watches the old master until the replicas follow the new one. If the new one died
// before, the leader would never recover.
func (s *Sentinel) watchedMaster(sentinel *Server) (*Server, error) {
	fields, err := sentinel.watched()
	if err != nil {
		return nil, err
	}
	if strings.Contains(fields["flags"], "failover_in_progress") {
		return nil, fmt.Errorf("sentinel %s is not done yet", sentinel.addr)
	}
	return s.byAddr(fields["ip"], fields["port"])
}

// agreed returns the live server that all live sentinels name and that calls itself a master.
func (s *Sentinel) agreed() (*Server, error) {
	var master *Server
	for _, sentinel := range s.sentinels {
		if !sentinel.live() {
			continue
		}
		theirs, err := s.watchedMaster(sentinel)
		if err != nil {
			return nil, err
		}
		if master != nil && theirs != master {
			return nil, fmt.Errorf("%s and %s are both named", master.addr, theirs.addr)
		}
		master = theirs
	}
	if master == nil || !master.live() {
		return nil, errors.New("no live master is named")
	}
	return master, master.ask(func(ctx context.Context, c *redis.Client) error {
		info, err := c.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(info, "role:master\r\n") {
			err = fmt.Errorf("%s is no master yet", master.addr)
		}
		return err
	})
}

// following returns nil once all live servers are replicas of master, and in sync.
func (s *Sentinel) following(master *Server) error {
	for _, server := range s.servers {
		if server == master || !server.live() {
			continue
		}
		if err := server.inSync(master); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sentinel) stop() {
	for _, server := range slices.Concat(s.sentinels, s.servers) {
		server.Stop()
	}
}
