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
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/weblimittest"
)

// Build makes an application: GET / with the limits, answered by 200. It returns how a test asks it.
type Build func(store core.Store, limits ...core.Limit) func(*http.Request) (*http.Response, error)

// Handler is what Build returns for a framework whose applications are handlers of net/http.
func Handler(h http.Handler) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result(), nil
	}
}

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

func newApp(t *testing.T, build Build, change ...func(core.Limit) core.Limit) *app {
	client := core.PerMinute(2).By(keyfuncs.Header("X-Client")).Named(wayIn)
	for _, f := range change {
		client = f(client)
	}
	store := weblimittest.New(t)
	return &app{t, store, build(store, client, //nolint:bodyclose // build returns a function, whose responses ask closes
		core.PerDay(100).FixedWindow().By(keyfuncs.Header("X-Client")).Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}).Named(daily),
	)}
}

// ask sends a request of a client and has its response checked.
func (a *app) ask(client string, check func(*http.Response)) {
	a.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("X-Client", client)
	response, err := a.do(r)
	if err != nil {
		a.Fatal(err)
	}
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

// Run runs all scenarios on applications that build makes.
func Run(t *testing.T, build Build) {
	scenarios := map[string]func(*testing.T){
		"a client waits for Retry-After": func(t *testing.T) { waits(newApp(t, build)) },
		"a limit is exhausted": func(t *testing.T) {
			a := newApp(t, build)
			a.store.Exhaust(daily)
			a.denied("a", daily)
			a.store.Advance(24 * time.Hour)
			a.allowed("a")
		},
		"one client is exhausted": func(t *testing.T) {
			a := newApp(t, build)
			a.store.Exhaust(wayIn, keyfuncs.Encode("header.x-client", "a"))
			a.denied("a", wayIn)
			a.allowed("b")
		},
		"a client is blocked": func(t *testing.T) {
			a := newApp(t, build)
			a.store.BlockFor(daily, 10*time.Minute)
			check.Equal(t, "a client that is blocked for ten minutes waits", a.denied("a", daily), 10*time.Minute)
			a.store.Advance(10 * time.Minute)
			a.allowed("a")
		},
		"the store fails, and limits are divided in the process": func(t *testing.T) {
			a := newApp(t, build)
			a.store.Fail()
			waits(a)
			a.store.Recover()
			// What was granted meanwhile is charged to the store, by the store's clock.
			a.allowed("a")
			a.denied("a", wayIn)
		},
		"the store fails, and a limit denies": func(t *testing.T) {
			a := newApp(t, build, func(l core.Limit) core.Limit { return l.OnOutage(core.Deny) })
			a.store.Fail()
			a.wantStatus(http.StatusServiceUnavailable)
			a.store.Recover()
			a.wantStatus(http.StatusOK)
		},
		"the store hangs": func(t *testing.T) {
			a := newApp(t, build, func(l core.Limit) core.Limit { return l.OnOutage(core.Deny) })
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

// RunInBubble runs the same in a bubble of testing/synctest, where requests that are delayed take
// no time.
func RunInBubble(t *testing.T, build Build) {
	synctest.Test(t, func(t *testing.T) { waits(newApp(t, build)) })
	synctest.Test(t, func(t *testing.T) {
		a := newApp(t, build, func(l core.Limit) core.Limit { return l.LeakyBucket(time.Minute) })
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
