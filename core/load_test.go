package core_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// loadOf returns a load that takes at most slow for a request, and inFlight at once.
func loadOf(inFlight int64, slow time.Duration) *core.Load {
	return core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: inFlight, Slow: slow})
}

// after asks for the factor once a second, and returns the last.
func after(t *testing.T, load *core.Load, seconds int) (factor float64) {
	t.Helper()
	for range seconds {
		time.Sleep(time.Second)
		factor = load.Factor(t.Context())
	}
	return factor
}

// begin begins n requests of each client.
func begin(load *core.Load, n, clients int) (all []*core.Work) {
	for i := range n * clients {
		all = append(all, load.Begin(&request{peer: fmt.Sprint("192.0.2.", i%clients)}))
	}
	return all
}

func end(all []*core.Work) {
	for _, w := range all {
		w.End()
	}
}

func TestLoadFactorFallsAndRecovers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		load := loadOf(100, 0)
		check.Equal(t, "the factor at rest", after(t, load, 1), 1)
		all := begin(load, 1, 120)
		check.Equal(t, "in flight", load.InFlight(), 120)
		if got := after(t, load, 1); got > 0.9 || got < 0.8 {
			t.Errorf("with 120 of 100 in flight the factor is %v, want a sixth less", got)
		}
		check.Equal(t, "the factor after long, its floor", after(t, load, 40), 0.25)
		end(all)
		end(all) // which changes nothing
		check.Equal(t, "in flight after the end", load.InFlight(), 0)
		if got := after(t, load, 5); got < 0.49 || got > 0.51 {
			t.Errorf("5 seconds after it is over the factor is %v, want half", got)
		}
		check.Equal(t, "the factor when asked more often", load.Factor(t.Context()), load.Factor(t.Context()))
	})
}

func TestLoadFloor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, floor := range []float64{0.05, 0.6, 1} {
			load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 1, Floor: floor})
			all := begin(load, 10, 100)
			check.Equal(t, "the factor on its floor", after(t, load, 60), floor)
			end(all)
		}
	})
}

// Trap: load measured with the client's own slowness in it.
func TestWaitingForTheClientIsNoLoad(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		load := loadOf(50, time.Second)
		all := begin(load, 10, 100)
		for _, w := range all {
			w.Wait()
			w.Wait() // it reads and writes at once
			w.Resume()
		}
		check.Equal(t, "in flight while all wait for their clients", load.InFlight(), 0)
		check.Equal(t, "the factor while they wait", after(t, load, 60), 1)
		for _, w := range all {
			w.Resume()
			w.Wait()
		}
		end(all)
		for _, w := range all {
			w.Resume() // as a read of the body that goes on
		}
		check.Equal(t, "the factor after a minute of waiting", after(t, load, 1), 1)
		check.Equal(t, "in flight then", load.InFlight(), 0)
		slow := begin(load, 1, 100)
		time.Sleep(1100 * time.Millisecond)
		end(slow)
		if got := after(t, load, 1); got == 1 {
			t.Error("a hundred slow handlers are no load")
		}
	})
}

// Trap: one client scales everybody down, with slow requests or with many.
func TestOneClientIsNoLoad(t *testing.T) {
	t.Parallel()
	for clients, overload := range map[int]bool{1: false, 4: false, 100: true} {
		synctest.Test(t, func(t *testing.T) {
			const connections = 1000
			for what, load := range map[string]*core.Load{"in flight": loadOf(200, 0), "slow": loadOf(0, 500*time.Millisecond)} {
				for range 30 { // among honest ones, which have a slow one now and then
					end(begin(load, 2, 50))
					late := begin(load, 1, 2)
					attack := begin(load, connections/clients, clients)
					time.Sleep(time.Second)
					load.Factor(t.Context())
					end(attack)
					end(late)
				}
				check.Equal(t, fmt.Sprintf("%d connections of %d clients, %s: overload", connections, clients, what), load.Factor(t.Context()) < 1, overload)
			}
		})
	}
}

// Many fast requests of one client don't hide the slow ones of others.
func TestOneClientHidesNoLoad(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		load := loadOf(0, 500*time.Millisecond)
		for range 10 {
			end(begin(load, 20_000, 1)) // all requests together: the slow ones are one in 200
			slow := begin(load, 1, 100)
			time.Sleep(time.Second)
			end(slow)
		}
		if got := after(t, load, 1); got == 1 {
			t.Error("a thousand slow requests of a hundred clients are hidden by 200,000 of one")
		}
	})
}

func TestFewSlowRequestsAreNoLoad(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		load := loadOf(0, 500*time.Millisecond)
		slow := begin(load, 1, 16)
		time.Sleep(time.Second)
		end(slow)
		check.Equal(t, "the factor after 16 slow requests, and no others", after(t, load, 1), 1)
		// One in a hundred may be slow.
		for range 10 {
			slow := begin(load, 1, 15)
			end(begin(load, 20, 100))
			time.Sleep(time.Second)
			end(slow)
		}
		check.Equal(t, "the factor with one slow request in a hundred", after(t, load, 1), 1)
		time.Sleep(10 * time.Second)
		slow = begin(load, 1, 100)
		time.Sleep(time.Second)
		end(slow)
		if got := after(t, load, 1); got == 1 {
			t.Error("nothing but slow requests is no load")
		}
		check.Equal(t, "the factor half a minute later", after(t, load, 30), 1)
	})
}

func TestLoadIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	load := loadOf(10, time.Millisecond)
	atOnce(8, func(int) {
		for range 200 {
			w := load.Begin(&request{peer: "192.0.2.1"})
			var waits sync.WaitGroup
			for range 2 {
				waits.Go(func() { w.Wait(); w.Resume() })
			}
			load.Factor(t.Context())
			if w.End(); load.InFlight() < 0 {
				t.Error("fewer than none in flight")
			}
			waits.Wait()
			w.Forget()
		}
	})
	check.Equal(t, "in flight after the end", load.InFlight(), 0)
}

func TestLoadsThatCantWork(t *testing.T) {
	t.Parallel()
	good := core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 1}
	for want, change := range map[string]func(*core.LoadConfig){
		"weblimit: NewLoad: keyfuncs: the zero Func makes no key":                  func(c *core.LoadConfig) { c.By = keyfuncs.Func{} },
		"weblimit: NewLoad: set LoadConfig.InFlight or Slow":                       func(c *core.LoadConfig) { c.InFlight = 0 },
		"weblimit: NewLoad: LoadConfig.InFlight must be at least 1, got -1":        func(c *core.LoadConfig) { c.InFlight = -1 },
		"weblimit: NewLoad: LoadConfig.Slow must be positive, got -1ns":            func(c *core.LoadConfig) { c.Slow = -1 },
		"weblimit: NewLoad: LoadConfig.Clients must be from 1 to 64, got -1":       func(c *core.LoadConfig) { c.Clients = -1 },
		"weblimit: NewLoad: LoadConfig.Clients must be from 1 to 64, got 65":       func(c *core.LoadConfig) { c.Clients = 65 },
		"weblimit: NewLoad: LoadConfig.Floor must be from 0.05 to 1, got 0.01":     func(c *core.LoadConfig) { c.Floor = 0.01 },
		"weblimit: NewLoad: LoadConfig.Floor must be from 0.05 to 1, got 1.000001": func(c *core.LoadConfig) { c.Floor = 1.000001 },
	} {
		config := good
		change(&config)
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, want) {
					t.Errorf("it says %s, want %s", got, want)
				}
			}()
			core.NewLoad(config)
		}()
	}
}

// What its documentation says that it takes.
func TestLoadSize(t *testing.T) {
	t.Parallel()
	if n := unsafe.Sizeof(core.Load{}); n > 23<<10 {
		t.Errorf("a Load takes %d bytes", n)
	}
}
