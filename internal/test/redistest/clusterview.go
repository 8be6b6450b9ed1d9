package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/must"
)

// view is the state of the cluster as one node sees it.
type view struct {
	ok     bool // cluster_state
	nodes  int  // listed in CLUSTER SLOTS
	slots  int  // that have a master
	ranges []redis.ClusterSlot
}

// view asks the node. CLUSTER SLOTS lists failed nodes only if they are masters.
func (s *Server) view() (v view, err error) {
	err = s.ask(func(ctx context.Context, client *redis.Client) error {
		info, err := client.ClusterInfo(ctx).Result()
		if err != nil {
			return fmt.Errorf("CLUSTER INFO of %s: %w", s.addr, err)
		}
		v.ok = strings.Contains(info, "cluster_state:ok\r\n")
		if v.ranges, err = client.ClusterSlots(ctx).Result(); err != nil {
			return fmt.Errorf("CLUSTER SLOTS of %s: %w", s.addr, err)
		}
		seen := map[string]bool{}
		for _, r := range v.ranges {
			v.slots += r.End - r.Start + 1
			for _, node := range r.Nodes {
				seen[node.Addr] = true
			}
		}
		v.nodes = len(seen)
		return nil
	})
	return v, err
}

// master returns the address of the slot's master, or "" if it has none.
func (v view) master(slot int) string {
	for _, r := range v.ranges {
		if r.Start <= slot && slot <= r.End && len(r.Nodes) > 0 {
			return r.Nodes[0].Addr
		}
	}
	return ""
}

// masters returns the addresses of all masters with slots.
func (v view) masters() map[string]bool {
	addrs := map[string]bool{}
	for _, r := range v.ranges {
		if len(r.Nodes) > 0 {
			addrs[r.Nodes[0].Addr] = true
		}
	}
	return addrs
}

// byAddr returns the node that listens there, or nil.
func (c *Cluster) byAddr(addr string) *Server {
	for _, node := range c.nodes {
		if node.addr == addr {
			return node
		}
	}
	return nil
}

// currentView returns the view of the first live node that answers.
func (c *Cluster) currentView() (view, error) {
	errs := []error{errors.New("redistest: no live node answers")}
	for _, node := range c.live() {
		v, err := node.view()
		if err == nil {
			return v, nil
		}
		errs = append(errs, err)
	}
	return view{}, errors.Join(errs...)
}

// MasterOf returns the current master of the slot, as a live node sees it. For a while after
// a master died, that is the dead one.
func (c *Cluster) MasterOf(tb testing.TB, slot int) *Server {
	tb.Helper()
	v := must.Get(c.currentView())(tb)
	master := c.byAddr(v.master(slot))
	if master == nil {
		tb.Fatalf("redistest: slot %d has no master", slot)
	}
	return master
}

// AwaitFailover waits until a live node other than old is master of the slot, all live nodes
// know that, and all say cluster_state:ok. It returns the new master. More than half of the
// masters must be alive, or no replica is elected.
func (c *Cluster) AwaitFailover(tb testing.TB, slot int, old *Server) *Server {
	tb.Helper()
	var master *Server
	must.OK(tb, await(fmt.Sprintf("a failover of slot %d", slot), func() (err error) {
		if master, err = c.agreed(slot); err != nil {
			return err
		}
		if master == old {
			return fmt.Errorf("%s is still its master", old.addr)
		}
		return nil
	}))
	return master
}

// DownAfter has the live nodes take a node for dead that has not answered for so long. It replaces the
// setting of the cluster's start, and a Restart of a node brings that back.
func (c *Cluster) DownAfter(tb testing.TB, d time.Duration) {
	tb.Helper()
	for _, node := range c.live() {
		node.ConfigSet(tb, "cluster-node-timeout", strconv.FormatInt(d.Milliseconds(), 10))
	}
}

// agreed returns the live node that is the slot's master in the view of all live nodes.
func (c *Cluster) agreed(slot int) (*Server, error) {
	live := c.live()
	if len(live) == 0 {
		return nil, errors.New("no node lives")
	}
	var master *Server
	for _, node := range live {
		v, err := node.view()
		if err != nil {
			return nil, err
		}
		if !v.ok {
			return nil, fmt.Errorf("%s: cluster_state is not ok", node.addr)
		}
		theirs := c.byAddr(v.master(slot))
		if theirs == nil || !theirs.live() {
			return nil, fmt.Errorf("%s knows no live master", node.addr)
		}
		if master != nil && theirs != master {
			return nil, fmt.Errorf("%s and %s are both named", master.addr, theirs.addr)
		}
		master = theirs
	}
	return master, nil
}
