package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota"
	"github.com/weblimit/weblimit/quota/notify"
)

// task says what a child process is told: the database, the receiver, and what kills it: "notice" or
// "usage", after it was sent.
type task struct{ Database, URL, Kill string }

// TestChild is the processes of other tests.
func TestChild(t *testing.T) { child.Run(t) }

// user opens a book, uses units, and kills itself between sending and marking.
var user = child.NewRole("user", func(t *testing.T, parent *child.Parent, task task) {
	book := must.Get(quota.Open(t.Context(), must.Get(pgxpool.New(t.Context(), task.Database))(t), task.config(t)))(t)
	plan := core.PerMonth(10, time.UTC).By(keyfuncs.Tenant("tenant")).Named("plan")
	limiter := must.Get(core.New(core.Config{Store: book.Store(), Limits: []core.Limit{plan}, Timeout: time.Minute}))(t)
	for granted := 0; granted < 10; {
		if d := limiter.AllowKey(t.Context(), "tenant:acme", 1); d.Allowed && d.Err == nil {
			granted++
		}
	}
	parent.Wait()
})

func (c task) config(t *testing.T) quota.Config {
	t.Helper()
	hook := must.Get(notify.NewWebhook(notify.WebhookConfig{URL: c.URL + "/notice", Secrets: []string{secret}}))(t)
	ingest := must.Get(notify.NewIngest(notify.IngestConfig{URL: c.URL + "/usage"}))(t)
	kill := func(what string, err error) error {
		if c.Kill == what {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return err
	}
	return quota.Config{
		Store: memstore.New(memstore.Config{}), FlushEvery: 10 * time.Millisecond, Timeout: time.Minute,
		Notices: []quota.Channel{{Name: "webhook", Parallel: 1, Timeout: time.Minute, Deliver: func(ctx context.Context, n quota.Notice) error {
			return kill("notice", hook.Deliver(ctx, n))
		}}},
		Exports: []quota.Export{{Name: "billing", Every: 10 * time.Millisecond, Timeout: time.Minute, Send: func(ctx context.Context, batch []quota.Increment) error {
			return kill("usage", ingest.Send(ctx, batch))
		}}},
	}
}

// A process is killed between sending and marking. Another one sends the same again, with the
// same ids, and the rest; the sum of usage by id is exact.
func TestAProcessThatIsKilledBetweenSendingAndMarking(t *testing.T) {
	t.Parallel()
	for _, kill := range []string{"notice", "usage"} {
		t.Run(kill, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			times, values := make(map[string]int), make(map[string]float64)
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				if r.URL.Path == "/notice" {
					times[r.Header.Get("webhook-id")]++
					return
				}
				var events []struct {
					ID   string
					Data struct{ Value float64 }
				}
				check.OK(t, json.NewDecoder(bytes.NewReader(body)).Decode(&events))
				for _, e := range events {
					if before, ok := values[e.ID]; ok && before != e.Data.Value {
						t.Errorf("%s has the values %v and %v", e.ID, before, e.Data.Value)
					}
					times[e.ID]++
					values[e.ID] = e.Data.Value
				}
			}))
			defer receiver.Close()
			database := pgtest.Shared(t).Database(t)
			p := user.Start(t, task{database, receiver.URL, kill})
			<-p.Ended()
			if status, ok := p.State().Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("the process ended with %v\n%s", p.State(), p.Printed())
			}
			pool := must.Get(pgxpool.New(t.Context(), database))(t)
			defer pool.Close()
			number := func(sql string) (n float64) {
				must.OK(t, pool.QueryRow(t.Context(), sql).Scan(&n))
				return n
			}
			// What the process has asked for may still be done.
			wait.Until(t, "its connections have ended", func() bool {
				return number(`SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`) == 0
			})
			// The leases end sooner than in life.
			for _, text := range []string{"UPDATE weblimit.delivery SET due = now()", "UPDATE weblimit.sink SET lease = now(), due = now()"} {
				must.Get(pool.Exec(t.Context(), text))(t)
			}
			book := must.Get(quota.Open(t.Context(), pool, task{URL: receiver.URL}.config(t)))(t)
			defer func() { _ = book.Close(t.Context()) }()
			const used = "SELECT coalesce(sum(used - base), 0) FROM weblimit.generation"
			const unsettled = `SELECT (SELECT count(*) FROM weblimit.delivery WHERE state <> 'delivered')
				+ (SELECT count(*) FROM weblimit.export WHERE pending IS NOT NULL)
				+ (SELECT count(*) FROM weblimit.notice WHERE (SELECT count(*) FROM weblimit.delivery d WHERE d.notice = id) <> 1)`
			sum := func() (n float64) {
				mu.Lock()
				defer mu.Unlock()
				for _, value := range values {
					n += value
				}
				return n
			}
			wait.Until(t, "all is sent and marked", func() bool { return number(unsettled) == 0 && sum() == number(used) && sum() > 0 })
			mu.Lock()
			defer mu.Unlock()
			twice := 0
			for id, n := range times {
				if n > 2 {
					t.Errorf("%s was sent %d times", id, n)
				}
				if n == 2 {
					twice++
				}
			}
			if twice == 0 {
				t.Errorf("nothing was sent twice: %v", times)
			}
		})
	}
}
