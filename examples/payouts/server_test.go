package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
)

// counter asks a server and notes what it pays, in order.
type counter struct {
	handler http.Handler

	mu   sync.Mutex
	paid []string // Guarded by mu.
}

func (c *counter) pay(p *payout) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paid = append(c.paid, p.customer+" "+p.ID)
}

func (c *counter) ask(method, path, customer, id, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.SetBasicAuth(customer, "")
	r.Header.Set("Idempotency-Key", id)
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w
}

func inBubble(t *testing.T, f func(t *testing.T, c *counter)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := new(counter)
		c.handler = newServer(ctx, core.NewMemory(), c.pay)
		f(t, c)
	})
}

// What is over the limit is paid later, in order and once, however often it is asked for.
func TestWhatIsOverTheLimitIsPaidLater(t *testing.T) {
	inBubble(t, func(t *testing.T, c *counter) {
		order := func(i int) *httptest.ResponseRecorder {
			return c.ask("POST", "/payouts", "alice", fmt.Sprint("pay-", i), `{"cents":500,"state":"paid","id":"x"}`)
		}
		for i := range 3 {
			check.Equal(t, "status at once", order(i).Code, http.StatusCreated)
		}
		for i := 3; i < 5; i++ {
			w := order(i)
			check.All(t, "over the limit", []any{w.Code, w.Header().Get("Location"), w.Header().Get("Retry-After")},
				http.StatusAccepted, fmt.Sprint("/payouts/pay-", i), "10")
			check.Contains(t, "body", w.Body.String(), `"state":"queued"`)
		}
		check.Equal(t, "another customer", c.ask("POST", "/payouts", "bob", "pay-3", `{"cents":1}`).Code, http.StatusCreated)
		again := order(3)
		check.All(t, "a repeat", []any{again.Code, strings.Contains(again.Body.String(), "queued")}, http.StatusOK, true)
		check.Equal(t, "the same key for something else", c.ask("POST", "/payouts", "alice", "pay-3", `{"cents":7}`).Code, http.StatusUnprocessableEntity)
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		check.Contains(t, "later", c.ask("GET", "/payouts/pay-4", "alice", "", "").Body.String(), `"state":"paid"`)
		check.Equal(t, "a payout of somebody else", c.ask("GET", "/payouts/pay-4", "bob", "", "").Code, http.StatusNotFound)
		for i := range 5 {
			check.Equal(t, "a repeat of what is paid", order(i).Code, http.StatusOK)
		}
		check.Equal(t, "paid", strings.Join(c.paid, ", "), "alice pay-0, alice pay-1, alice pay-2, bob pay-3, alice pay-3, alice pay-4")
	})
}

// What a customer can have wait has an end, and what is no order is none.
func TestWhatIsNotTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, c *counter) {
		codes := map[int]int{}
		for i := range 3 + mostQueued + 5 {
			codes[c.ask("POST", "/payouts", "alice", fmt.Sprint("p", i), `{"cents":1}`).Code]++
		}
		check.Equal(t, "refused", codes[http.StatusTooManyRequests] > 0, true)
		check.Equal(t, "taken", codes[http.StatusCreated]+codes[http.StatusAccepted] >= 3+mostQueued, true)
		for _, body := range []string{"", "{}", `{"cents":-1}`, `{"cents":1e99}`, `{"cents":1,` + strings.Repeat(" ", 2000) + `"a":1}`} {
			check.Equal(t, fmt.Sprintf("%.20q", body), c.ask("POST", "/payouts", "alice", "x", body).Code, http.StatusBadRequest)
		}
		check.Equal(t, "without a key", c.ask("POST", "/payouts", "alice", "", `{"cents":1}`).Code, http.StatusBadRequest)
	})
}
