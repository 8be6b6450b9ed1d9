package redistest

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/must"
)

// StartReplica starts a replica of a server that was started by [StartTCP], and returns once it has all of its data.
// Nobody watches the two: they change roles when the test says so, by Promote and Follow.
func StartReplica(tb testing.TB, of *Server) *Server {
	tb.Helper()
	s := StartTCP(tb, replicaArgs...)
	s.Follow(tb, of)
	return s
}

// Follow makes the server a replica of another one, and returns once it has all of its data instead of its own.
func (s *Server) Follow(tb testing.TB, primary *Server) {
	tb.Helper()
	host, port, err := net.SplitHostPort(primary.addr)
	must.OK(tb, err)
	must.OK(tb, s.do("REPLICAOF", host, port))
	must.OK(tb, await("the replica to have all data", func() error { return s.inSync(primary) }))
}

// Received returns once a replica has what its primary has now.
func (s *Server) Received(tb testing.TB, primary *Server) {
	tb.Helper()
	offset := func(of *Server, field string) (n string, err error) {
		err = of.ask(func(ctx context.Context, client *redis.Client) error {
			info, err := client.InfoMap(ctx, "replication").Result()
			n = info["Replication"][field]
			return err
		})
		return n, err
	}
	must.OK(tb, await("the replica to receive everything", func() error {
		sent, err := offset(primary, "master_repl_offset")
		received, failed := offset(s, "slave_repl_offset")
		if err = errors.Join(err, failed); err == nil && sent != received {
			err = errors.New("it has received " + received + " of " + sent)
		}
		return err
	}))
}

// Promote makes a replica a primary, with what it has received. The other one does not hear of it.
func (s *Server) Promote(tb testing.TB) {
	tb.Helper()
	must.OK(tb, s.do("REPLICAOF", "NO", "ONE"))
}
