package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
)

// What an outage was is known when it ends: how many decisions it was, and why, if there was one reason.
func TestTheEndOfAnOutageSaysWhatItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var registry store.Registry
		var ended []store.Event
		registry.Watch(func(e store.Event) {
			if e.Kind == store.EventOutageEnded {
				ended = append(ended, e)
			}
		})
		for _, classes := range [][]store.Class{{store.ClassTimeout}, {store.ClassTimeout, store.ClassReadOnly, store.ClassTimeout}, {store.ClassTimeout, store.ClassTimeout}} {
			for _, class := range classes {
				registry.Failed(&store.Error{Class: class, Node: "redis:6379", Err: errors.New("no answer")})
			}
			time.Sleep(2 * time.Second) // in a bubble
			registry.Answered()
		}
		var got []string
		for _, e := range ended {
			got = append(got, fmt.Sprintf("%d %q %t", e.Count, e.Class, e.Slow()))
		}
		check.Equal(t, "outages", strings.Join(got, ", "), `1 "timeout" true, 3 "" false, 2 "timeout" true`)
	})
}

// Errors of a class are reported every ten seconds at most, and none is lost: the counts of the
// events add up to the errors.
func TestEventsCountAllErrors(t *testing.T) {
	t.Parallel()
	const every, goroutines, each = 10 * time.Second, 16, 1000
	synctest.Test(t, func(t *testing.T) {
		var registry store.Registry
		var mu sync.Mutex
		var counts []int64 // of the events of errors. Guarded by mu.
		registry.OnEvent(func(e store.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == store.EventStoreError {
				counts = append(counts, e.Count)
			}
		})
		failed := &store.Error{Class: "WRONGTYPE", Node: "redis:6379", Err: errors.New("of another application")}
		wave := func() {
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for range each {
						registry.Failed(failed)
					}
				})
			}
			wg.Wait()
		}
		wave()
		time.Sleep(every - 1) // in a bubble
		wave()
		if len(counts) != 1 {
			t.Fatalf("%d events within %v, want one", len(counts), every)
		}
		time.Sleep(time.Nanosecond) // in a bubble
		registry.Failed(failed)
		if sum := counts[0] + counts[1]; len(counts) != 2 || sum != 2*goroutines*each+1 {
			t.Errorf("%d events count %d errors, want two of %d", len(counts), sum, 2*goroutines*each+1)
		}
	})
}
