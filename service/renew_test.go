package service

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// onceFailing is a store whose next call of one kind fails: before the store has done it, or after that.
type onceFailing struct {
	core.Store
	next atomic.Value // of string: the kind
}

func (f *onceFailing) fails(kind string, call func() error) error {
	if f.next.CompareAndSwap(kind+" before", "") {
		return errors.New("the store is away")
	}
	err := call()
	if f.next.CompareAndSwap(kind+" after", "") {
		return errors.New("the answer is lost")
	}
	return err
}

func (f *onceFailing) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	return f.fails("take", func() error { return f.Store.Take(ctx, checks, results) })
}

func (f *onceFailing) Peek(ctx context.Context, checks []core.Check, results []core.Result) error {
	return f.fails("peek", func() error { return f.Store.Peek(ctx, checks, results) })
}

func (f *onceFailing) Renew(ctx context.Context, checks []core.Check, results []core.Result) error {
	return f.fails("renew", func() error { return f.Store.Renew(ctx, checks, results) })
}

// oneJob is a policy of one slot with a lease of 30 seconds.
func oneJob(c *Config) {
	c.Policies = policies{"job": {core.Concurrent(1).Lease(30 * time.Second).By(keyfuncs.User("user")).Named("job")}}
	c.ReservationTTL, c.Logger = time.Minute, slog.New(slog.DiscardHandler)
}

const job = `{"policy":"job","key":"user:ann","hold":true}`

func renews(t *testing.T, s http.Handler, token string) string {
	t.Helper()
	next := ask(t, s, "/v1/renew", byToken(token)).Reservation
	if next == "" || next == token {
		t.Fatalf("the token in place of another: %q", next)
	}
	return next
}

func byToken(token string) string { return `{"reservation":"` + token + `"}` }

// A renewal of which the caller has not heard, or that failed in the store, is sent again: the slot lives on, and is
// free when the request has ended.
func TestALostRenewalIsRepeated(t *testing.T) {
	t.Parallel()
	for _, failure := range []string{"", "peek before", "take before", "take after", "renew before", "renew after"} {
		synctest.Test(t, func(t *testing.T) {
			faulty := &onceFailing{Store: core.NewMemory()}
			s := newService(t, oneJob, func(c *Config) { c.Store = faulty })
			token := renews(t, s, ask(t, s, "/v1/check", job).Reservation)
			for range 3 {
				time.Sleep(10 * time.Second)
				faulty.next.Store(failure)
				status, _, _ := post(s, "/v1/renew", byToken(token)) // of which the caller does not hear
				if faulty.next.Load() != "" {
					t.Errorf("%s: was not asked for", failure)
				}
				retried := failure == "" || failure[:4] == "take" // a mark is, in the call
				must.Equal(t, failure, status, map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[retried])
				time.Sleep(10 * time.Second)
				token = renews(t, s, token)
				time.Sleep(25 * time.Second) // what the lost renewal has taken ends, and what this one has does not
				must.Equal(t, failure+": another has the slot", ask(t, s, "/v1/check", job).Allowed, false)
			}
			ask(t, s, "/v1/settle", byToken(token))
			drain(t, s)
			must.Equal(t, failure+": it is free after the settlement", ask(t, s, "/v1/check", job).Allowed, true)
		})
	}
}

// A token is void when the one in its place is renewed, and when one of the reservation is settled. Until then it expires.
func TestOldTokensAreVoid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, oneJob)
		tokens := []string{ask(t, s, "/v1/check", job).Reservation}
		for i := range 4 {
			time.Sleep(time.Second)
			tokens = append(tokens, renews(t, s, tokens[i]))
		}
		repeated := renews(t, s, tokens[3])
		for i := range 3 {
			wantStatus(t, s, http.StatusConflict, "/v1/renew", byToken(tokens[i]))
		}
		last := renews(t, s, repeated)
		wantStatus(t, s, http.StatusConflict, "/v1/renew", byToken(tokens[3]))
		ask(t, s, "/v1/settle", byToken(last))
		for _, token := range append(tokens, repeated, last) {
			for _, path := range []string{"/v1/renew", "/v1/settle", "/v1/refund"} {
				wantStatus(t, s, http.StatusConflict, path, byToken(token))
			}
		}
		time.Sleep(31 * time.Second)
		must.Equal(t, "the slot is free", ask(t, s, "/v1/peek", `{"policy":"job","key":"user:ann"}`).Allowed, true)

		replayed := ask(t, s, "/v1/check", job).Reservation
		for range 6 {
			renews(t, s, replayed)
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Second)
		wantStatus(t, s, http.StatusGone, "/v1/renew", byToken(replayed))
		time.Sleep(30 * time.Second)
		must.Equal(t, "the slot is free, however often a token was renewed", ask(t, s, "/v1/check", job).Allowed, true)
	})
}
