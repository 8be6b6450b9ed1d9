package redistest

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/must"
)

const (
	// moveBatch is how many keys Finish moves in one MIGRATE.
	moveBatch = 100
	// moveTimeout bounds one MIGRATE, in milliseconds.
	moveTimeout = 60_000
)

// Move is a slot on its way from one master to another. Until Finish, the old master serves
// the keys it still has and answers ASK for all others; the new master serves those only
// after ASKING. It is for one goroutine.
type Move struct {
	tb       testing.TB
	cluster  *Cluster
	slot     int
	from, to *Server
}

// MoveSlot moves a slot with all its keys to another master, and waits until all live nodes
// know.
func (c *Cluster) MoveSlot(tb testing.TB, slot int, to *Server) {
	tb.Helper()
	c.BeginMove(tb, slot, to).Finish()
}

// BeginMove marks a slot as moving from its master to another one, and moves no key.
func (c *Cluster) BeginMove(tb testing.TB, slot int, to *Server) *Move {
	tb.Helper()
	m := &Move{tb: tb, cluster: c, slot: slot, from: c.MasterOf(tb, slot), to: to}
	if m.from == to {
		tb.Fatalf("redistest: slot %d is on %s already", slot, to.addr)
	}
	// In this order, since the old master must not send clients to a node that would send them
	// back.
	to.must(tb, "cluster", "setslot", slot, "importing", c.ids[m.from])
	m.from.must(tb, "cluster", "setslot", slot, "migrating", c.ids[to])
	return m
}

// Keys moves up to n keys of the slot, any of them, and returns how many it moved.
func (m *Move) Keys(n int) int {
	m.tb.Helper()
	var keys []string
	err := m.from.ask(func(ctx context.Context, client *redis.Client) (err error) {
		if keys, err = client.ClusterGetKeysInSlot(ctx, m.slot, n).Result(); err != nil {
			return fmt.Errorf("CLUSTER GETKEYSINSLOT: %w", err)
		}
		return m.migrate(ctx, client, keys...)
	})
	if err != nil {
		m.tb.Fatalf("redistest: %v", err)
	}
	return len(keys)
}

// Key moves these keys of the slot. It passes over keys that do not exist.
func (m *Move) Key(keys ...string) {
	m.tb.Helper()
	err := m.from.ask(func(ctx context.Context, client *redis.Client) error {
		return m.migrate(ctx, client, keys...)
	})
	if err != nil {
		m.tb.Fatalf("redistest: %v", err)
	}
}

func (m *Move) migrate(ctx context.Context, client *redis.Client, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	host, port, err := net.SplitHostPort(m.to.addr)
	if err != nil {
		return err
	}
	args := []any{"migrate", host, port, "", 0, moveTimeout, "keys"}
	for _, key := range keys {
		args = append(args, key)
	}
	if err := client.Do(ctx, args...).Err(); err != nil {
		return fmt.Errorf("MIGRATE: %w", err)
	}
	return nil
}

// Finish moves the keys that are left, tells all masters which node has the slot now, and
// waits until all live nodes know.
func (m *Move) Finish() {
	m.tb.Helper()
	for n := 1; n > 0; {
		n = m.Keys(moveBatch)
	}
	v := must.Get(m.cluster.currentView())(m.tb)
	// The new master first. If the old one came first and the new one died, no node would have
	// the slot.
	owners := []*Server{m.to, m.from}
	masters := v.masters()
	for _, node := range m.cluster.live() {
		if masters[node.addr] && node != m.to && node != m.from {
			owners = append(owners, node)
		}
	}
	for _, node := range owners {
		node.must(m.tb, "cluster", "setslot", m.slot, "node", m.cluster.ids[m.to])
	}
	must.OK(m.tb, await(fmt.Sprintf("slot %d to have moved", m.slot), func() error {
		master, err := m.cluster.agreed(m.slot)
		if err != nil {
			return err
		}
		if master != m.to {
			return fmt.Errorf("%s is still its master", master.addr)
		}
		return nil
	}))
}
