package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// replicaArgs make replicas that follow a new master at once.
var replicaArgs = []string{
	"--repl-diskless-sync", "yes",
	"--repl-diskless-sync-delay", "0",
	"--repl-ping-replica-period", "1",
}

// startSentinel starts the servers, then the sentinels.
func startSentinel(replicas, sentinels int) (*Sentinel, error) {
	s := &Sentinel{}
	err := s.startAll(replicas, sentinels)
	if err == nil {
		err = await("the sentinels to know all", s.formed)
	}
	if err != nil {
		for _, server := range append(s.Sentinels(), s.servers...) {
			err = fmt.Errorf("%w\n%s:\n%s", err, server.addr, server.logTail())
		}
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *Sentinel) startAll(replicas, sentinels int) error {
	master, err := start(tcpPort, replicaArgs)
	if err != nil {
		return err
	}
	s.servers = append(s.servers, master)
	host, port, err := net.SplitHostPort(master.addr)
	if err != nil {
		return err
	}
	following := append([]string{"--replicaof", host, port}, replicaArgs...)
	others, err := startSeveral(replicas, dataServer(following))
	s.servers = append(s.servers, others...)
	if err != nil {
		return err
	}
	s.sentinels, err = startSeveral(sentinels, sentinelOf(host, port, sentinels/2+1))
	if err != nil {
		return err
	}
	if v, err := version(); err != nil || v.before(7, 0) {
		return err // they know no SENTINEL DEBUG, and take ten seconds to find each other
	}
	for _, sentinel := range s.sentinels {
		if err := sentinel.do(quicker...); err != nil {
			return err
		}
	}
	return nil
}

// sentinelOf is the command line of a sentinel. A sentinel keeps what it learns in its
// configuration file, so it knows its master and the others after a Restart.
func sentinelOf(host, port string, quorum int) commandLine {
	return func(dir string, listenArgs []string) ([]string, error) {
		lines := []string{
			"dir " + dir,
			"sentinel monitor " + MasterName + " " + host + " " + port + " " + strconv.Itoa(quorum),
			"sentinel down-after-milliseconds " + MasterName + " 1500",
			"sentinel failover-timeout " + MasterName + " 2000",
			"sentinel parallel-syncs " + MasterName + " 8",
		}
		file := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return nil, err
		}
		return append([]string{file, "--sentinel"}, listenArgs...), nil
	}
}

// quicker are SENTINEL DEBUG parameters, in milliseconds, with which sentinels find each
// other and act at once. The tilt ones keep a busy machine from putting them to sleep: by
// default a sentinel that lost 2 s does nothing for the next 30. The ping-period stays: only
// a replica whose INFO came within five of them is promoted, and INFO comes once a second
// while the master is down.
var quicker = []any{
	"sentinel", "debug",
	"info-period", 200,
	"ask-period", 200,
	"publish-period", 200,
	"tilt-trigger", 10_000,
	"tilt-period", 1000,
}

// formed returns nil once the replicas are in sync and every sentinel knows them and the
// other sentinels.
func (s *Sentinel) formed() error {
	if err := s.following(s.servers[0]); err != nil {
		return err
	}
	for _, sentinel := range s.sentinels {
		fields, err := sentinel.watched()
		if err != nil {
			return err
		}
		for name, want := range map[string]int{
			"num-slaves": len(s.servers) - 1, "num-other-sentinels": len(s.sentinels) - 1,
		} {
			if fields[name] != strconv.Itoa(want) {
				return fmt.Errorf("sentinel %s: %s is %s, not %d", sentinel.addr, name, fields[name], want)
			}
		}
	}
	return nil
}

// watched returns what a sentinel knows about its master.
func (s *Server) watched() (fields map[string]string, err error) {
	err = s.ask(func(ctx context.Context, c *redis.Client) error {
		cmd := redis.NewMapStringStringCmd(ctx, "sentinel", "master", MasterName)
		if err := c.Process(ctx, cmd); err != nil {
			return fmt.Errorf("SENTINEL MASTER of %s: %w", s.addr, err)
		}
		fields = cmd.Val()
		return nil
	})
	return fields, err
}
