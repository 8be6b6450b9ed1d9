package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

func TestExportsWaitForASlot(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		var now, most, panics atomic.Int64
		second, two := make(chan struct{}), sync.Once{}
		server := httptest.NewServer(newServer(store, time.Minute, func(context.Context) {
			defer now.Add(-1)
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); {
				m = most.Load()
			}
			if n == 2 {
				two.Do(func() { close(second) })
			}
			select { // the first one waits for another, however late a busy machine lets that in
			case <-second:
			case <-time.After(time.Minute):
			}
			time.Sleep(20 * time.Millisecond) // a third one would come in, if it could
			if panics.Add(1)%3 == 0 {
				panic("on purpose")
			}
		}))
		t.Cleanup(server.Close)
		var wg sync.WaitGroup
		var exported, failed atomic.Int64
		for range 9 {
			wg.Go(func() {
				res, err := server.Client().Post(server.URL+"/export", "", http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				defer res.Body.Close()
				body, _ := io.ReadAll(res.Body)
				switch {
				case res.StatusCode == http.StatusOK && strings.HasPrefix(string(body), "exported, waited "):
					exported.Add(1)
				case res.StatusCode == http.StatusInternalServerError:
					failed.Add(1)
				default:
					t.Errorf("status %d, %s", res.StatusCode, body)
				}
			})
		}
		wg.Wait()
		if exported.Load() != 6 || failed.Load() != 3 || most.Load() != 2 {
			t.Errorf("%d exported and %d failed, %d at a time; want 6, 3 and 2", exported.Load(), failed.Load(), most.Load())
		}
	})
}

func TestWhoWouldWaitTooLongIsDenied(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	var running sync.WaitGroup
	running.Add(2)
	server := httptest.NewServer(newServer(core.NewMemory(), 20*time.Millisecond, func(context.Context) {
		running.Done()
		<-goOn
	}))
	t.Cleanup(server.Close)
	post := func() (status int, policy string) {
		res, err := server.Client().Post(server.URL+"/export", "", http.NoBody)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		_ = res.Body.Close()
		return res.StatusCode, res.Header.Get("Ratelimit-Policy")
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { post() })
	}
	running.Wait()
	if status, policy := post(); status != http.StatusTooManyRequests || policy != `"exports";q=2;qu="concurrent-requests"` {
		t.Errorf("status %d, RateLimit-Policy %s; want it denied for want of a slot", status, policy)
	}
	close(goOn)
	wg.Wait()
}
