package gateways

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weblimit/weblimit/internal/suites/proxies"
)

// one is a gateway that tests use one after the other.
type one struct {
	mu sync.Mutex
	*setup
}

var (
	ones    sync.Map     // *one, by program and policy
	clients atomic.Int64 // that tests of such a gateway were
)

// shared returns a running gateway with limits, which the test has for itself until it ends, and with clients that no other
// test is. Tests leave gateway and limiter as they are.
func (p *program) shared(t *testing.T, away string) *setup {
	t.Helper()
	if away == p.policies[0] {
		away = "" // as the file is
	}
	found, _ := ones.LoadOrStore(p.name+" "+away, new(one))
	o := found.(*one)
	o.mu.Lock()
	t.Cleanup(o.mu.Unlock)
	if o.setup == nil {
		o.setup = p.start(lasting{t}, limits, away)
	}
	s := *o.setup
	s.served.Store(0)
	s.attacker, s.bystander, s.logged = newClient(), newClient(), len(s.limiter.log())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%.4000s\nthe limiter:\n%.4000s", p.name, s.gateway.Log(), s.limiter.log())
		}
	})
	return &s
}

// newClient returns a loopback address.
func newClient() string {
	n := clients.Add(1)
	return fmt.Sprintf("127.0.%d.%d", 1+n/200, 1+n%200)
}

// lasting is a test whose servers outlive it, until endShared.
type lasting struct{ testing.TB }

var ends struct {
	sync.Mutex
	all []func()
}

func (lasting) Failed() bool { return false } // of what it starts nothing is logged when that ends

func (lasting) Cleanup(end func()) {
	ends.Lock()
	defer ends.Unlock()
	ends.all = append(ends.all, end)
}

// endShared ends what tests have shared.
func endShared() {
	for i := range ends.all {
		ends.all[len(ends.all)-1-i]()
	}
}

// usedUp is shared, after the limit of the attacker was used up.
func (p *program) usedUp(t *testing.T, away string) *setup {
	t.Helper()
	s := p.shared(t, away)
	got := proxies.Send(t, s.attacker, s.addr, repeat("GET /things HTTP/1.1\r\nHost: example.com\r\n\r\n", 110)...)
	if got[200] != 100 || got[429] != 10 {
		t.Fatalf("the answers were %v", got)
	}
	s.served.Store(0)
	return s
}

func repeat(request string, n int) (requests [][]byte) {
	for range n {
		requests = append(requests, []byte(request))
	}
	return requests
}
