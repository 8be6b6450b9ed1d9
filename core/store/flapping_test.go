package store_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
)

var errFull = &store.Error{Class: store.ClassMemory, Node: "redis:6379", Err: errors.New("OOM command not allowed")}

// flap has a node's breaker open and close, and outages begin and end, as a Redis does that is full and has room for
// a moment now and then. The last of so many changes of each is that it is well.
func flap(registry *store.Registry, changes int) {
	for i := range changes {
		if i%2 == 0 {
			registry.Failed(errFull)
			registry.Report(store.Event{Kind: store.EventBreakerOpened, Class: errFull.Class, Node: errFull.Node, Err: errFull})
		}
		time.Sleep(1100 * time.Millisecond) // in a bubble; an outage lasts a second at least
		if i%2 == 1 {
			registry.Report(store.Event{Kind: store.EventBreakerClosed, Node: errFull.Node})
			registry.Answered()
		}
	}
}

// However often a state changes, listeners hear of few changes, of how many they did not hear, and of the last. Observers
// see each.
func TestAStateThatFlaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const changes = 100
		var registry store.Registry
		heard, seen := make(map[store.EventKind]int64), make(map[store.EventKind]int64)
		var last store.Event // of a breaker
		breakers := 0        // events of them
		var mu sync.Mutex    // timers tell of breakers and of outages at once
		registry.Watch(func(e store.Event) { seen[e.Kind]++ })
		registry.OnEvent(func(e store.Event) {
			mu.Lock()
			defer mu.Unlock()
			heard[e.Kind] += 1 + e.Omitted
			switch e.Kind {
			case store.EventBreakerOpened, store.EventBreakerClosed:
				last = e
				breakers++
			}
		})
		flap(&registry, changes)
		time.Sleep(20 * time.Second) // in a bubble
		synctest.Wait()
		check.Equal(t, "breakers that observers saw open", seen[store.EventBreakerOpened], changes/2)
		check.Equal(t, "outages that observers saw end", seen[store.EventOutageEnded], changes/2)
		check.Equal(t, "changes of breakers, told and omitted", heard[store.EventBreakerOpened]+heard[store.EventBreakerClosed], changes)
		check.Equal(t, "changes of outages, told and omitted", heard[store.EventOutageBegan]+heard[store.EventOutageEnded], changes)
		check.Equal(t, "the last that listeners heard", last.Kind, store.EventBreakerClosed)
		if told, most := breakers, 4+changes*1100/10_000+1; told > most {
			t.Errorf("%d changes of a breaker were told in 110 s, want at most %d", told, most)
		}
		told := breakers
		flap(&registry, 2)
		check.Equal(t, "changes that are told at once after a calm", breakers-told, 2)
	})
}

// Each node has a breaker of its own: one that flaps hides no other.
func TestABreakerThatFlapsHidesNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var registry store.Registry
		var opened atomic.Bool
		registry.OnEvent(func(e store.Event) {
			if e.Kind == store.EventBreakerOpened && e.Node == "another:6379" {
				opened.Store(true)
			}
		})
		flap(&registry, 20)
		registry.Report(store.Event{Kind: store.EventBreakerOpened, Node: "another:6379"})
		check.Equal(t, "heard at once that another has opened", opened.Load(), true)
	})
}

// 25 seconds in which a breaker and an outage change about four times a second were some hundred lines. Not parallel: it
// sets the default logger.
func TestTheLogOfAStateThatFlaps(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(*testing.T) {
		var registry store.Registry
		for range 50 { // 500 ms each
			registry.Failed(errFull)
			registry.Report(store.Event{Kind: store.EventBreakerOpened, Class: errFull.Class, Node: errFull.Node, Err: errFull})
			time.Sleep(500 * time.Millisecond) // in a bubble
			registry.Report(store.Event{Kind: store.EventBreakerClosed, Node: errFull.Node})
		}
		time.Sleep(10 * time.Second) // in a bubble
		synctest.Wait()
	})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) > 15 {
		t.Errorf("%d lines in 25 s:\n%s", len(lines), log.String())
	}
	check.Contains(t, "the last line", lines[len(lines)-1], `msg="weblimit: breaker closed" node=redis:6379 omitted=`)
}
