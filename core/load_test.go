package core_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
)

func TestLoadMeasures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		load := new(core.Load)
		if load.P99() != 0 || load.InFlight() != 0 {
			t.Errorf("at first: %v, %d in flight", load.P99(), load.InFlight())
		}
		handler := load.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) }))
		for range 98 {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		}
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				done := load.Begin()
				time.Sleep(time.Second)
				if load.InFlight() == 0 {
					t.Error("nothing is in flight")
				}
				done()
				done()
			})
		}
		group.Wait()
		if got := load.P99(); got < time.Second || got > 1250*time.Millisecond {
			t.Errorf("p99 is %v, want 1s and up to a quarter more", got)
		}
		if load.InFlight() != 0 {
			t.Errorf("%d in flight, want none", load.InFlight())
		}
		for range 150 {
			load.Begin()()
		}
		if got := load.P99(); got < 20*time.Millisecond || got > 25*time.Millisecond {
			t.Errorf("with 2 slow ones of 250, p99 is %v, want 20ms and up to a quarter more", got)
		}
		time.Sleep(10 * time.Second)
		if got := load.P99(); got != 0 {
			t.Errorf("10 seconds later p99 is %v, want nothing", got)
		}
	})
}

func TestLoadOutlivesPanics(t *testing.T) {
	t.Parallel()
	load := new(core.Load)
	func() {
		defer func() { _ = recover() }()
		load.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })).ServeHTTP(nil, nil)
	}()
	if load.InFlight() != 0 {
		t.Errorf("%d in flight after a panic", load.InFlight())
	}
}

func TestLoadFactorFallsAndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		load := new(core.Load)
		factor := load.Factor(10, 100*time.Millisecond)
		next := func() float64 {
			time.Sleep(time.Second)
			return factor(t.Context())
		}
		if got := next(); got != 1 {
			t.Errorf("at rest the factor is %v", got)
		}
		var done []func()
		for range 11 {
			done = append(done, load.Begin())
		}
		if got := next(); got > 0.92 || got < 0.9 {
			t.Errorf("with 11 of 10 in flight the factor is %v, want a tenth less", got)
		}
		for range 40 {
			next()
		}
		least := next()
		if least < 0.05 || least > 0.06 {
			t.Errorf("after long the factor is %v, want the least", least)
		}
		for _, d := range done {
			d()
		}
		if got := next(); got > least {
			t.Errorf("while 43 seconds are the 99th percentile the factor is %v, want no more than %v", got, least)
		}
		time.Sleep(10 * time.Second)
		for range 9 {
			next()
		}
		if got := next(); got < 0.5 || got > 0.6 {
			t.Errorf("10 seconds after it is over the factor is %v, want half", got)
		}
		if again := factor(t.Context()); again != factor(t.Context()) {
			t.Error("asking more often makes it rise faster")
		}
	})
}
