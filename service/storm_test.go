package service

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Of many settlements and refunds of one reservation at once, over two processes, one counts.
func TestSettlementsRace(t *testing.T) {
	t.Parallel()
	store := core.NewMemory()
	secret := func(c *Config) { c.Store, c.Secrets = store, [][]byte{[]byte(strings.Repeat("s", minSecret))} }
	both := []*Service{newService(t, secret), newService(t, secret)}
	for round := range 20 {
		user := fmt.Sprintf("user:%d", round)
		token := ask(t, both[0], "/v1/reserve", fmt.Sprintf(`{"policy":"tokens","key":%q,"costs":{"tokens":300}}`, user)).Reservation
		var settled, refunded, conflicts atomic.Int64
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				path, body, won := "/v1/refund", `{"reservation":"`+token+`"}`, &refunded
				if i%2 == 0 {
					path, body, won = "/v1/settle", `{"reservation":"`+token+`","costs":{"tokens":100}}`, &settled
				}
				switch status, _, got := post(both[i/2%2], path, body); status {
				case http.StatusOK:
					won.Add(1)
				case http.StatusConflict:
					conflicts.Add(1)
				default:
					t.Errorf("%s: %d %s", path, status, got)
				}
			})
		}
		all.Wait()
		must.Equal(t, "conflicts", conflicts.Load(), 15)
		drain(t, both[0])
		drain(t, both[1])
		want := int64(1000)
		if settled.Load() == 1 {
			want = 900
		}
		must.Equal(t, "left", remaining(t, both[0], user), want)
	}
}

// Costs that are no numbers of units are refused wherever they stand, and change nothing.
func TestCostsThatAreNone(t *testing.T) {
	t.Parallel()
	s := newService(t)
	token := ask(t, s, "/v1/reserve", `{"policy":"tokens","key":"user:ann","costs":{"tokens":100}}`).Reservation
	for _, cost := range []string{
		"NaN", "Infinity", "-Infinity", "1e18", "1e3", "1e400", "1.0", "1.5", "-1", "-0", "01", "0x10", "+1", "9007199254740993",
		"18446744073709551617", "1000000000000000000", strings.Repeat("9", 400), `"1"`, "true", "null", "[1]", "{}", "",
	} {
		for path, body := range map[string]string{
			"/v1/check":   `{"policy":"tokens","key":"user:ann","cost":%s}`,
			"/v1/reserve": `{"policy":"tokens","key":"user:ann","costs":{"tokens":%s}}`,
			"/v1/charge":  `{"policy":"tokens","key":"user:ann","costs":{"tokens":%s}}`,
			"/v1/settle":  `{"reservation":"` + token + `","cost":%s}`,
		} {
			if status, _, got := post(s, path, fmt.Sprintf(body, cost)); status != http.StatusBadRequest {
				t.Errorf("%s with %.30q: %d %s", path, cost, status, got)
			}
		}
	}
	drain(t, s)
	must.Equal(t, "left", remaining(t, s, "user:ann"), 900)
	ask(t, s, "/v1/refund", `{"reservation":"`+token+`"}`)
	drain(t, s)
	must.Equal(t, "left after a refund", remaining(t, s, "user:ann"), 1000)
}

// A retry of an operation whose request costs more, as the policy reads it, passed for free.
func TestAnOperationHasTheCostThatThePolicyReads(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *Config) {
		c.Policies = policies{"export": {core.PerHour(100).FixedWindow().By(keyfuncs.ClientIP()).Named("rows").CostBy(func(r keyfuncs.Request) int64 {
			return int64(len(keyfuncs.HeaderOf(r, "X-Rows")))
		})}}
	})
	for _, step := range []struct {
		rows int
		left int64
	}{{1, 99}, {1, 99}, {50, 49}, {50, 49}, {1, 49}} {
		a := ask(t, s, "/v1/check", fmt.Sprintf(`{"policy":"export","operation":"a","request":{"client_ip":"192.0.2.1","headers":{"X-Rows":%q}}}`, strings.Repeat("x", step.rows)))
		must.Equal(t, fmt.Sprintf("left after %d rows", step.rows), a.Limits[0].Remaining, step.left)
	}
}
