package billing

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota"
	"github.com/weblimit/weblimit/quota/notify"
)

// Notices arrive while the webhook fails, hangs up after it has received one, is slow and is down, and PostgreSQL is
// killed and frozen between the attempts: each notice at least once, all with one id the same, and in the end the ledger
// says so of each.
func TestNoticesUnderFaults(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	bodies, arrivals := make(map[string]string), 0
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		what := rand.IntN(6)
		if what == 0 { // down
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		id := r.Header.Get("webhook-id")
		mu.Lock()
		if before, again := bodies[id]; again && before != string(body) {
			t.Errorf("two notices with one id:\n%s\n%s", before, body)
		}
		bodies[id] = string(body)
		arrivals++
		mu.Unlock()
		switch what {
		case 1: // it has the notice, and the sender does not learn of it
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = conn.Close()
			}
		case 2:
			select {
			case <-r.Context().Done():
			case <-time.After(time.Duration(rand.IntN(300)) * time.Millisecond): // slower than the channel waits, or not
			}
		}
	}))
	t.Cleanup(receiver.Close)
	hook := must.Get(notify.NewWebhook(notify.WebhookConfig{
		URL: receiver.URL, Secrets: []string{"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"},
	}))(t)
	postgreSQL, server := pgtest.Start(t), redistest.Start(t)
	database := postgreSQL.Database(t)
	var books [2]*quota.Book
	s := &spender{T: t, granted: make(map[int]int64)}
	for i := range books {
		redisStore := redisstore.New(server.Client(t))
		redisStore.OnEvent(func(core.Event) {}) // no log
		books[i] = must.Get(quota.Open(t.Context(), connect(t, database), quota.Config{
			Store: redisStore, FlushEvery: 20 * time.Millisecond, Timeout: 2 * time.Second,
			Notices: []quota.Channel{{Name: "webhook", Deliver: hook.Deliver, Timeout: 200 * time.Millisecond, Attempts: 1000, Backoff: 10 * time.Millisecond}},
		}))(t)
		t.Cleanup(func() { _ = books[i].Close(context.Background()) })
		s.book, s.rules = books[i], must.Get(rulesOf(books[i].Store(), limits(100, 0)...))(t)
	}
	tenants := long.Rounds(60, 400)
	must.OK(t, s.spend(tenants, 79)) // all accounts are known to Redis
	must.OK(t, s.book.Flush(t.Context()))
	for round := range 7 {
		must.OK(t, s.spend(tenants, 3))
		time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond) // a fault is to come at any moment
		if round%2 == 0 {
			postgreSQL.Kill()
			postgreSQL.Restart(t)
		} else {
			postgreSQL.Freeze(t)
			time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond) // as above
			postgreSQL.Thaw(t)
		}
	}
	wait.Until(t, "all notices are delivered", func() bool {
		delivered := 0
		err := s.book.Deliveries(t.Context(), quota.DeliveryQuery{State: quota.Delivered}, func(quota.Delivery) error { delivered++; return nil })
		return err == nil && delivered == 3*tenants
	})
	must.OK(t, s.book.Deliveries(t.Context(), quota.DeliveryQuery{}, func(d quota.Delivery) error {
		if bodies[d.Notice.ID] == "" || d.State != quota.Delivered {
			t.Errorf("not delivered: %+v", d)
		}
		return nil
	}))
	mu.Lock()
	defer mu.Unlock()
	check.Equal(t, "notices", len(bodies), 3*tenants)
	figure(t, "arrivals of each notice", float64(arrivals)/float64(len(bodies)))
}
