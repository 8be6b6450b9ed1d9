// Package kit is the suite for package weblimittest: what a test of an application does with it, on
// each framework.
package kit

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/weblimittest"
)

const (
	wayIn = "client"
	daily = "daily" // has a penalty
)

// app is an application under test, limited by the header X-Client: Fiber's Test has one address.
type app struct {
	*testing.T
	store *weblimittest.Store
	do    func(*http.Request) (*http.Response, error)
}

func newApp(t *testing.T, f frameworks.Framework, change ...func(core.Limit) core.Limit) *app {
	client := core.PerMinute(2).By(keyfuncs.Header("X-Client")).Named(wayIn)
	for _, f := range change {
		client = f(client)
	}
	store := weblimittest.New(t)
	served := f.New()
	served.Handle("GET", "/", frameworks.OK, served.Limiter(core.ForLimits(store, []core.Limit{
		client,
		core.PerDay(100).FixedWindow().By(keyfuncs.Header("X-Client")).Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}).Named(daily),
	})))
	return &app{t, store, served.Do}
}

// ask sends a request of a client and has its response checked.
func (a *app) ask(client string, check func(*http.Response)) {
	a.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("X-Client", client)
	response := must.Get(a.do(r))(a)
	check(response)
	if err := response.Body.Close(); err != nil {
		a.Error(err)
	}
}

func (a *app) allowed(client string) {
	a.Helper()
	a.ask(client, func(r *http.Response) {
		a.Helper()
		weblimittest.Allowed(a, r)
	})
}

// denied returns how long the client is told to wait.
func (a *app) denied(client, limit string) (wait time.Duration) {
	a.Helper()
	a.ask(client, func(r *http.Response) {
		a.Helper()
		weblimittest.Denied(a, r, limit)
		wait = weblimittest.RetryAfter(a, r)
	})
	return wait
}

func (a *app) wantStatus(want int) {
	a.Helper()
	a.ask("a", func(r *http.Response) {
		a.Helper()
		check.Equal(a, "status", r.StatusCode, want)
	})
}

// OnEach runs all scenarios on each framework.
func OnEach(t *testing.T, all []frameworks.Framework) {
	for _, f := range all {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			run(t, f)
		})
	}
}

// InABubble runs on each framework what follows the bubble's clock.
func InABubble(t *testing.T, all []frameworks.Framework) {
	for _, f := range all {
		// Outside of the bubble, so that it does not wait for the goroutine that fasthttp starts here.
		app := f.New()
		_ = must.Get(app.Do(httptest.NewRequest(http.MethodGet, "/", http.NoBody)))(t).Body.Close()
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			runInBubble(t, f)
		})
	}
}

// run runs all scenarios on applications of a framework.
func run(t *testing.T, f frameworks.Framework) {
	scenarios := map[string]func(*testing.T){
		"a client waits for Retry-After": func(t *testing.T) { waits(newApp(t, f)) },
		"a limit is exhausted": func(t *testing.T) {
			a := newApp(t, f)
			a.store.Exhaust(daily)
			a.denied("a", daily)
			a.store.Advance(24 * time.Hour)
			a.allowed("a")
		},
		"one client is exhausted": func(t *testing.T) {
			a := newApp(t, f)
			a.store.Exhaust(wayIn, keyfuncs.Encode("header.x-client", "a"))
			a.denied("a", wayIn)
			a.allowed("b")
		},
		"a client is blocked": func(t *testing.T) {
			a := newApp(t, f)
			a.store.BlockFor(daily, 10*time.Minute)
			check.Equal(t, "a client that is blocked for ten minutes waits", a.denied("a", daily), 10*time.Minute)
			a.store.Advance(10 * time.Minute)
			a.allowed("a")
		},
		"the store fails, and limits are divided in the process": func(t *testing.T) {
			a := newApp(t, f)
			a.store.Fail()
			waits(a)
			a.store.Recover()
			// What was granted meanwhile is charged to the store, by the store's clock.
			a.allowed("a")
			a.denied("a", wayIn)
		},
		"the store fails, and a limit denies": func(t *testing.T) {
			a := newApp(t, f, func(l core.Limit) core.Limit { return l.OnOutage(core.Deny) })
			a.store.Fail()
			a.wantStatus(http.StatusServiceUnavailable)
			a.store.Recover()
			a.wantStatus(http.StatusOK)
		},
		"the store hangs": func(t *testing.T) {
			a := newApp(t, f, func(l core.Limit) core.Limit { return l.OnOutage(core.Deny) })
			a.store.Hang()
			a.wantStatus(http.StatusServiceUnavailable)
			a.store.Recover()
			a.wantStatus(http.StatusOK)
		},
	}
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t)
		})
	}
}

// runInBubble runs the same in a bubble of testing/synctest, where requests that are delayed take
// no time.
func runInBubble(t *testing.T, f frameworks.Framework) {
	synctest.Test(t, func(t *testing.T) { waits(newApp(t, f)) })
	synctest.Test(t, func(t *testing.T) {
		a := newApp(t, f, func(l core.Limit) core.Limit { return l.LeakyBucket(time.Minute) })
		began := time.Now()
		a.allowed("a")
		a.allowed("a")
		if waited := time.Since(began); waited != 30*time.Second || !a.store.Now().Equal(time.Now()) {
			t.Errorf("the second request of two a minute waited %v, want 30s; the store's clock is at %v, the bubble's at %v", waited, a.store.Now(), time.Now())
		}
		a.store.Exhaust(wayIn) // the queue, too
		a.store.Advance(a.denied("a", wayIn))
		a.allowed("a")
	})
}

// waits uses a limit of two a minute up, is denied until Retry-After is over, and is allowed then.
func waits(a *app) {
	a.Helper()
	a.ask("a", func(r *http.Response) {
		a.Helper()
		weblimittest.Allowed(a, r)
		weblimittest.Remaining(a, r, wayIn, 1)
		weblimittest.Policies(a, r, wayIn, daily)
	})
	a.allowed("a")
	wait := a.denied("a", wayIn)
	check.Equal(a, "Retry-After", wait, 30*time.Second)
	a.allowed("b")
	a.store.Advance(wait - time.Microsecond)
	a.denied("a", wayIn)
	a.store.Advance(time.Microsecond)
	a.allowed("a")
}
