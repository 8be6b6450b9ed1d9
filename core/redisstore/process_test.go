package redisstore_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// TestChild is the processes of other tests.
func TestChild(t *testing.T) { child.Run(t) }

// order is where the process of a test finds Redis.
type order struct{ Network, Addr, Prefix string }

func onSharedServer(t *testing.T) order {
	t.Helper()
	server := redistest.Shared(t)
	return order{server.Network(), server.Addr(), redistest.Prefix(t)}
}

// role is what a process does on the server. It sends its report, and keeps what it holds until it is killed.
func role[Report any](name string, do func(t *testing.T, client *redis.Client, prefix string) Report) child.Role[order] {
	return child.NewRole(name, func(t *testing.T, parent *child.Parent, o order) {
		client := redis.NewClient(&redis.Options{Network: o.Network, Addr: o.Addr, PoolSize: 16})
		defer client.Close()
		parent.Send(do(t, client, o.Prefix))
		parent.Wait()
	})
}

// reportsOf has several processes act in a role at a time, and returns their reports.
func reportsOf[Report any](t *testing.T, role child.Role[order]) (reports []Report) {
	t.Helper()
	told := onSharedServer(t)
	var running []*child.Process
	for range hammerProcesses {
		running = append(running, role.Start(t, told))
	}
	for _, p := range running {
		reports = append(reports, child.Receive[Report](t, p))
		p.Close()
		p.Wait(t)
	}
	return reports
}
