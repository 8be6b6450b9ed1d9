package redisstore_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

const (
	heldSlots = 3
	heldMark  = "holding"
)

// heldLease is short, so that a test can outlast it, and long enough that a busy process renews in time.
const heldLease = 12 * time.Second

func heldRule(t testing.TB) *core.Rule {
	t.Helper()
	return mustRule(t, core.Concurrent(heldSlots+1).Lease(heldLease).Named("running"))
}

// A slot can become free at any moment, so Redis makes each denial.
func TestADenialForWantOfASlotIsNotCached(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t, redisstore.Config{DenialCache: redisstore.DenialCache{Age: long, Size: 64}, Prefetch: redisstore.Prefetch{Fraction: 0.5, MaxAge: time.Second}})
	two, rate := mustRule(t, core.Concurrent(2).Named("running")), mustRule(t, core.Per(9, hammerWindow).FixedWindow().Named("rate"))
	checks := []core.Check{check("k", two, 2), check("k", rate, 1)}
	held := take(t, store, checks...)
	for range 100 {
		if got := take(t, store, checks...); got[0].Allowed || got[0].Cached || got[0].RetryAfter != time.Second || got[1].Charged {
			t.Fatalf("denied with %+v", got)
		}
	}
	if err := store.Refund(t.Context(), checks[:1], held[:1]); err != nil {
		t.Fatal(err)
	}
	if got := take(t, store, checks...); !got[0].Charged || got[1].Remaining != 7 {
		t.Fatalf("with free slots: %+v", got)
	}

	// The denial of a rate limit is cached, since slots that come and go do not change it.
	listening(t, store)
	take(t, store, check("k", rate, 7))
	one := []core.Check{check("k", two, 1), check("k", rate, 1)}
	for i := range 3 {
		if got := take(t, store, one...); got[1].Allowed || got[1].Cached != (i > 0) {
			t.Errorf("request %d that the rate denies: %+v", i, got)
		}
		if err := store.Refund(t.Context(), checks[:1], []core.Result{{Charged: true, At: 1}}); err != nil {
			t.Fatal(err)
		}
	}
}

// A request may take longer than its lease, as long as it renews it.
func TestASlotIsHeldForManyLeases(t *testing.T) {
	t.Parallel()
	now := time.Now().UnixMicro()
	store := redisstore.NewAt(redistest.Shared(t).Client(t), func() int64 { return now }, redisstore.Config{Prefix: redistest.Prefix(t)})
	rule := heldRule(t)
	checks := []core.Check{check("k", rule, heldSlots)}
	held := take(t, store, checks...)
	for passed := time.Duration(0); passed < 3*heldLease; passed += heldLease / 5 {
		now += (heldLease / 5).Microseconds()
		if err := store.Renew(t.Context(), checks, held); err != nil {
			t.Fatal(err)
		}
		if got := take(t, store, check("k", rule, 2))[0]; got.Allowed || got.Remaining != 1 {
			t.Fatalf("after %v: %+v", passed, got)
		}
	}
	if err := store.Refund(t.Context(), checks, held); err != nil || held[0].Remaining != heldSlots+1 {
		t.Errorf("given back: %+v, %v", held[0], err)
	}
}

// The slots of a process that is killed are free again when their lease ends.
func TestSlotsOfAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	store, server, prefix := newStore(t)
	order, err := json.Marshal(hammerOrder{server.Network(), server.Addr(), prefix})
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestHoldingProcess$")
	child.Env = append(os.Environ(), "WEBLIMIT_HOLD="+string(order))
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill := func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}
	defer kill()
	lines := bufio.NewScanner(out)
	for holding := false; !holding && lines.Scan(); {
		holding = strings.HasPrefix(lines.Text(), heldMark)
	}
	rule := heldRule(t)
	time.Sleep(heldLease * 5 / 4) // it renews
	if got := take(t, store, check("k", rule, 2))[0]; got.Allowed || got.Remaining != 1 {
		t.Fatalf("while the process lives: %+v", got)
	}
	kill()
	killed := time.Now()
	eventually(t, "the slots of the process that was killed", func() bool {
		return take(t, store, check("k", rule, heldSlots+1))[0].Allowed
	})
	if waited := time.Since(killed); waited < heldLease/4 {
		t.Errorf("its slots were free after %v already", waited)
	}
}

// TestHoldingProcess is not a test: it is the process that is killed.
func TestHoldingProcess(t *testing.T) {
	told := os.Getenv("WEBLIMIT_HOLD")
	if told == "" {
		t.Skip("run by TestSlotsOfAProcessThatIsKilled")
	}
	var order hammerOrder
	if err := json.Unmarshal([]byte(told), &order); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Network: order.Network, Addr: order.Addr})
	defer func() { _ = client.Close() }()
	store := redisstore.New(client, redisstore.Config{Prefix: order.Prefix})
	checks := []core.Check{check("k", heldRule(t), heldSlots)}
	held := take(t, store, checks...)
	fmt.Printf("\n%s\n", heldMark)
	for began := time.Now(); time.Since(began) < 5*time.Minute; time.Sleep(heldLease / 20) {
		if err := store.Renew(t.Context(), checks, held); err != nil {
			t.Fatal(err)
		}
	}
}
