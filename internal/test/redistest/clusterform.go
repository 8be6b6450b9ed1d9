package redistest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// stayArgs keep replicas with their masters, and masters that lost their last slot masters.
// Before Redis 6.2 there is only a number of replicas below which none leaves its master.
func stayArgs() []string {
	if v, err := version(); err == nil && v.before(6, 2) {
		return []string{"--cluster-migration-barrier", "1000"}
	}
	return []string{"--cluster-allow-replica-migration", "no"}
}

// clusterArgs make nodes that find each other on loopback and fail over, as soon as they notice.
var clusterArgs = []string{
	"--cluster-enabled", "yes",
	"--cluster-announce-ip", loopback,
	"--cluster-require-full-coverage", "no",
	"--cluster-replica-validity-factor", "0", // a replica always stands for election
	"--repl-diskless-sync", "yes",
	"--repl-diskless-sync-delay", "0",
	"--repl-ping-replica-period", "1",
}

// nodeTimeout is the time after which nodes take a silent one for dead, in milliseconds. A busy
// machine can keep a node from running for seconds. Others would take over its slots, or refuse to
// decide, in a test that is about something else. Without replicas nobody can take over.
const (
	nodeTimeout    = "--cluster-node-timeout"
	noticeFailover = "3000"
	noticeNothing  = "15000"
)

// startCluster starts the nodes and joins them. That takes some 2 s, most of which Redis
// makes each master wait after its start, for news of a cluster that it may have left.
func startCluster(masters, replicas int, args []string) (*Cluster, error) {
	if masters < 1 || replicas < 0 {
		return nil, fmt.Errorf("redistest: a cluster of %d masters with %d replicas each", masters, replicas)
	}
	notice := noticeFailover
	if replicas == 0 {
		notice = noticeNothing
	}
	all := slices.Concat(clusterArgs, []string{nodeTimeout, notice}, stayArgs(), args)
	nodes, err := startSeveral(masters*(1+replicas), dataServer(all))
	c := &Cluster{masters: masters, nodes: nodes, ids: map[*Server]string{}}
	if err == nil {
		err = c.form()
	}
	if err != nil {
		for _, node := range c.nodes {
			err = fmt.Errorf("%w\n%s:\n%s", err, node.addr, node.logTail())
		}
		c.stop()
		return nil, err
	}
	return c, nil
}

// form joins the nodes to one cluster.
func (c *Cluster) form() error {
	for i, node := range c.nodes {
		if err := c.prepare(i, node); err != nil {
			return err
		}
	}
	if err := c.meet(); err != nil {
		return err
	}
	for i, replica := range c.nodes[c.masters:] {
		master := c.masterAtStart(i)
		// It fails until the replica has heard of its master.
		err := await("a replica to know its master", func() error {
			return replica.do("cluster", "replicate", c.ids[master])
		})
		if err != nil {
			return err
		}
	}
	return await("the cluster to form", c.formed)
}

// masterAtStart returns the master of replica i.
func (c *Cluster) masterAtStart(i int) *Server {
	replicas := (len(c.nodes) - c.masters) / c.masters
	return c.nodes[i/replicas]
}

// prepare asks node i for its id, and gives it its slots if it begins as a master.
func (c *Cluster) prepare(i int, node *Server) error {
	return node.ask(func(ctx context.Context, client *redis.Client) error {
		id, err := client.Do(ctx, "cluster", "myid").Text()
		if err != nil {
			return fmt.Errorf("CLUSTER MYID: %w", err)
		}
		c.ids[node] = id
		// Nodes with equal epochs would first have to agree on whose is higher.
		if err := client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return fmt.Errorf("CLUSTER SET-CONFIG-EPOCH: %w", err)
		}
		if i >= c.masters {
			return nil
		}
		const slots = lastSlot + 1
		first, last := i*slots/c.masters, (i+1)*slots/c.masters-1
		if err := client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			return fmt.Errorf("CLUSTER ADDSLOTSRANGE: %w", err)
		}
		return nil
	})
}

// meet introduces all nodes to each other, since gossip alone would take seconds.
func (c *Cluster) meet() error {
	for i, node := range c.nodes {
		err := node.ask(func(ctx context.Context, client *redis.Client) error {
			for _, other := range c.nodes[i+1:] {
				host, port, err := net.SplitHostPort(other.addr)
				if err != nil {
					return err
				}
				if err := client.ClusterMeet(ctx, host, port).Err(); err != nil {
					return fmt.Errorf("CLUSTER MEET: %w", err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// formed returns nil once every node knows all slots, masters and replicas, and every
// replica is in sync.
func (c *Cluster) formed() error {
	for i, node := range c.nodes {
		v, err := node.view()
		if err != nil {
			return err
		}
		if v.nodes != len(c.nodes) || !v.ok || v.slots != lastSlot+1 {
			return fmt.Errorf("%s knows %d nodes and %d slots, state ok: %v", node.addr, v.nodes, v.slots, v.ok)
		}
		if i < c.masters {
			continue
		}
		if err := node.inSync(c.masterAtStart(i - c.masters)); err != nil {
			return err
		}
	}
	return nil
}

// inSync returns nil once s is a replica of master and has all of its data.
func (s *Server) inSync(master *Server) error {
	return s.ask(func(ctx context.Context, client *redis.Client) error {
		info, err := client.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		_, port, err := net.SplitHostPort(master.addr)
		if err != nil {
			return err
		}
		for _, line := range []string{"role:slave\r\n", "master_port:" + port + "\r\n", "master_link_status:up\r\n"} {
			if !strings.Contains(info, line) {
				return fmt.Errorf("%s: no %q in INFO replication", s.addr, line)
			}
		}
		return nil
	})
}
