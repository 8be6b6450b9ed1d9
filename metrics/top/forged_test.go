package top

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/race"
)

// An attacker forges keys that are not only asked once: 400 are denied 60 times each, and hundreds of thousands use up
// a whole limit, or are denied, by their first request. Who is denied more than its busy keys is at the head of the
// list, with counts that are never too high; who is denied less is on the list, too. Of the latter a third was: each
// new key took the place of the last one.
func TestForgedKeysThatAreDenied(t *testing.T) {
	t.Parallel()
	n := 300_000
	if race.Enabled {
		n /= 10
	}
	const now = tick(17_000_000_000)
	for seed := range uint64(4) {
		a := newAdmission().(*admission)
		a.secret = secret{seed + 1, 7}
		rule := a.decision.Rule
		one := func(key string, result core.Result) {
			d := decision{LimitResult: &core.LimitResult{Rule: rule, Result: result}, key: []byte(key), cost: 1}
			a.limit.note(&d, a.secret.hash(d.key), now)
		}
		within, full, denied := core.Result{Allowed: true, Remaining: rule.Burst / 2}, core.Result{Allowed: true}, core.Result{RetryAfter: 1}
		random := rand.New(rand.NewPCG(seed, 1))
		forged := 0
		next := func() string { forged++; return fmt.Sprintf("header.x-key:%x", forged) }
		flood := func(n int) {
			for i := range n {
				switch i % 3 {
				case 0:
					one(next(), within)
				case 1:
					one(next(), full)
				case 2:
					one(next(), denied)
				}
			}
		}
		flood(n / 3)
		for range 60 * 400 / 20 { // the busy ones, in between
			for range 20 {
				one(fmt.Sprint("header.x-key:busy-", random.IntN(400)), denied)
			}
			flood(n / 3 / (60 * 400 / 20))
		}
		for round := range 100 { // the offenders, in between
			for i := range 20 {
				one(fmt.Sprint("ip:192.0.2.", i), denied)
				if round%2 == 0 && round < 60 {
					one(fmt.Sprint("ip:198.51.100.", i), denied)
				}
			}
			flood(n / 3 / 100)
		}
		l := a.limit.snapshot(now, 2048, 0)
		head := 0
		for i, c := range l.MostDenied(40) {
			var host int
			if k, _ := fmt.Sscanf(c.Key, "ip:192.0.2.%d", &host); k == 1 && i < 20 {
				head++
			}
			if c.Hour.Denied > 100 {
				t.Errorf("secret %d: %s was denied %d times, which is too much", seed, c.Key, c.Hour.Denied)
			}
		}
		more, fewer := 0, 0
		for i := range 20 {
			if c, _ := l.Client(fmt.Sprint("ip:192.0.2.", i)); c.Hour.Denied >= 75 {
				more++
			}
			if _, ok := l.Client(fmt.Sprint("ip:198.51.100.", i)); ok {
				fewer++
			}
		}
		t.Logf("secret %d: of 20 clients that were denied more than forged keys, %d are the first, and %d are counted well; of 20 that were denied less, %d are known", seed, head, more, fewer)
		if head < 16 || more < 16 || fewer < 14 {
			t.Errorf("secret %d: that is too few", seed)
		}
		if len(l.Clients) > sketchSize {
			t.Errorf("%d clients are remembered", len(l.Clients))
		}
	}
}
