package policy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// by is a file whose limit counts by another key than another such file, under the same name.
func by(key, rest string) string {
	return fmt.Sprintf("policies:\n  api:\n    limits:\n      client: {by: '%s', %s}\n", key, rest)
}

// used returns what a store has of a key under the limit.
func used(t *testing.T, store core.Store, key string) int64 {
	t.Helper()
	d, ok := store.Registry().Declared("client")
	must.Equal(t, "declared", ok, true)
	results := make([]core.Result, 1)
	must.OK(t, store.Peek(t.Context(), []core.Check{{Key: []byte(key), Rule: &d.Rule}}, results))
	return d.Rule.Burst - results[0].Remaining
}

// address sends a request of 192.0.2.1. What it has charged, waits for or holds stays the address's, whatever the
// policy says by then: the host of the same name is another client.
func address(h http.Handler) int {
	r := httptest.NewRequest(http.MethodGet, "http://192.0.2.1/", http.NoBody)
	r.RemoteAddr = "192.0.2.1:1234"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

const ipKey, hostKey = "ip:192.0.2.1", "host:192.0.2.1"

func TestARequestEndsUnderTheKeyThatItBeganWith(t *testing.T) {
	t.Parallel()
	t.Run("a charge that is given back", func(t *testing.T) {
		t.Parallel()
		const limit = "limit: 5/day fixed, refund_on: [server_errors]"
		from, set := sourceOf(t, by("ip", limit), quiet())
		store := core.NewMemory()
		h := nethttp.With(core.Config{Store: store}).Policy(set, "api")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			from.put(by("host", limit))
			check.OK(t, set.Reload(t.Context()))
			w.WriteHeader(http.StatusInternalServerError)
		}))
		must.Equal(t, "status", address(h), http.StatusInternalServerError)
		check.All(t, "used of the address and of the host", []any{used(t, store, ipKey), used(t, store, hostKey)}, 0, 0)
		must.Equal(t, "status", address(h), http.StatusInternalServerError)
		check.All(t, "used after a request by the host", []any{used(t, store, ipKey), used(t, store, hostKey)}, 0, 0)
	})
	t.Run("a slot", func(t *testing.T) {
		t.Parallel()
		const limit = "limit: concurrent 1"
		from, set := sourceOf(t, by("ip", limit), quiet())
		store := core.NewMemory()
		deep := 0
		var h http.Handler
		h = nethttp.With(core.Config{Store: store}).Policy(set, "api")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if deep++; deep > 1 {
				return // the most that a client gains: a slot of each key
			}
			check.Equal(t, "a second request by the address", address(h), http.StatusTooManyRequests)
			from.put(by("host", limit))
			check.OK(t, set.Reload(t.Context()))
			check.Equal(t, "a request by the host", address(h), http.StatusOK)
			check.All(t, "slots of the address and of the host", []any{used(t, store, ipKey), used(t, store, hostKey)}, 1, 0)
		}))
		must.Equal(t, "status", address(h), http.StatusOK)
		check.Equal(t, "slots of the address", used(t, store, ipKey), 0)
	})
	t.Run("a wait", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			const limit = "limit: 1/minute wait 10m"
			from, set := sourceOf(t, by("ip", limit), quiet())
			store := core.NewMemory()
			h := nethttp.With(core.Config{Store: store}).Policy(set, "api")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			must.Equal(t, "the first", address(h), http.StatusOK)
			began, waited := time.Now(), make(chan time.Duration)
			for range 3 {
				go func() {
					check.Equal(t, "one that waits", address(h), http.StatusOK)
					waited <- time.Since(began)
				}()
			}
			synctest.Wait()
			from.put(by("host", limit))
			must.OK(t, set.Reload(t.Context()))
			check.Equal(t, "one by the host", address(h), http.StatusOK)
			check.Equal(t, "it waited", time.Since(began), 0)
			for i := range 3 {
				check.Equal(t, "waited", <-waited, time.Duration(i+1)*time.Minute)
			}
		})
	})
	t.Run("denials towards a block, and the block", func(t *testing.T) {
		t.Parallel()
		const limit = "limit: 1/day fixed, penalty: {after: 3, within: 1h, for: 1h}"
		from, set := sourceOf(t, by("ip", limit), quiet())
		store := core.NewMemory()
		l := limiterOf(t, set, store, "api")
		r := keyfuncs.Values{"ip": "192.0.2.1", "host": "192.0.2.1"}
		reason := func(what string, want ...core.Reason) {
			t.Helper()
			for _, w := range want {
				check.Equal(t, what, l.Allow(r).Reason, w)
			}
		}
		within, denied, blocked := core.ReasonWithinLimit, core.ReasonLimitExceeded, core.ReasonBlocked
		reason("by the address", within, denied, denied)
		from.put(by("user", limit))
		must.OK(t, set.Reload(t.Context()))
		r["user"] = "192.0.2.1"
		reason("by a user", within, denied, denied) // its own two denials
		from.put(by("ip", limit))
		must.OK(t, set.Reload(t.Context()))
		reason("by the address again", blocked, blocked)
		from.put(by("user", limit))
		must.OK(t, set.Reload(t.Context()))
		reason("by the user again", blocked)
	})
}
