package top

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/exchange"
	"github.com/weblimit/weblimit/internal/test/must"
)

// agreeing returns a tracker that has counted under a secret of its own, and will take on another one.
func agreeing(config Config) *Tracker {
	config.Exchange = &exchange.Memory{Secret: []byte("of all instances")}
	return newTracker(config)
}

// What is counted before instances agree on a secret is what is seen after it: clients, their last
// denials, rates, and the use of each.
func TestCountsFromBeforeTheAgreementStay(t *testing.T) {
	t.Parallel()
	heavy := agreeing(Config{})
	heavy.clock.Store(int64(anyTime)) // the beginning of an hour
	l := newLimiter(t, heavy, core.PerHour(10).Named("api"), core.PerMinute(5).Shadow().Named("trial"))
	const clients = 150 // few enough that no set of the table is full, whatever the secret
	for client := range clients {
		ask(l, fmt.Sprint("user:", client), 1+client%15)
	}
	heavy.settle(anyTime)
	heavy.clock.Add(2 * minute) // so that the steps have ended
	before := sorted(heavy.Snapshot())
	must.OK(t, heavy.agree(t.Context()))
	after := sorted(heavy.Snapshot())
	for i := range before.Limits {
		b, a := &before.Limits[i], &after.Limits[i]
		if b.Use.group == a.Use.group {
			t.Errorf("%s: the secret has not changed", b.Name)
		}
		if len(a.Clients) != clients || !reflect.DeepEqual(b.Clients, a.Clients) {
			t.Errorf("%s: %d clients, want the same %d", b.Name, len(a.Clients), clients)
		}
		if !reflect.DeepEqual(b.Rates, a.Rates) || len(a.Rates.Seconds.Allowed) == 0 {
			t.Errorf("%s: rates %+v, want %+v", b.Name, a.Rates, b.Rates)
		}
		check.Slices(t, b.Name+": what clients used", a.Use.Peaks, b.Use.Peaks)
		check.Equal(t, b.Name+": clients", a.Use.Clients, clients)
		check.All(t, "quota and shadow", []any{a.Quota, a.Shadow}, b.Quota, b.Shadow)
	}
	ask(l, "user:1", 3) // goes on
	if c, _ := heavy.Snapshot().Limit("api").Client("user:1"); c.Hour.Requests != 5 {
		t.Errorf("%d requests of a client, want 2 from before and 3 from after", c.Hour.Requests)
	}
	s, _ := heavy.Snapshot().Limit("trial").Use.Suggest(1)
	check.Equal(t, "the most that a client used", s.Quota, 15)
	must.OK(t, heavy.agree(t.Context()))
	if c, _ := heavy.Snapshot().Limit("api").Client("user:1"); c.Hour.Requests != 5 {
		t.Errorf("%d requests after the second agreement on the same secret, want 5", c.Hour.Requests)
	}
}

func sorted(s *Snapshot) *Snapshot {
	for i := range s.Limits {
		slices.SortFunc(s.Limits[i].Clients, func(a, b Client) int { return strings.Compare(a.Key, b.Key) })
	}
	return s
}

// Requests go on while the secret changes: what both have counted is added up.
func TestAnAgreementUnderLoad(t *testing.T) {
	t.Parallel()
	heavy := agreeing(Config{})
	l := newLimiter(t, heavy, core.PerHour(10).Named("api"))
	const each, workers = 3000, 4
	var group sync.WaitGroup
	half := make(chan struct{}, workers)
	for range workers {
		group.Go(func() {
			for i := range each {
				if i == each/2 {
					half <- struct{}{}
				}
				l.AllowKey(context.Background(), fmt.Sprint("user:", i%20), 1)
			}
		})
	}
	<-half
	must.OK(t, heavy.agree(t.Context()))
	group.Wait()
	api, total := heavy.Snapshot().Limit("api"), int64(0)
	for _, c := range api.Clients {
		total += c.Hour.Requests
	}
	if len(api.Clients) != 20 || total > each*workers || total < each*workers-10*workers {
		t.Errorf("%d of %d requests are counted, of %d clients", total, each*workers, len(api.Clients))
	}
	if n := api.Use.Peaks; len(n) != 20 || slices.Max(n) > each*workers/20 || slices.Min(n) < each*workers/20-10*workers {
		t.Errorf("clients used %v, want %d each", n, each*workers/20)
	}
}

// A sample whose clients are not all known begins anew: the busiest alone would pull numbers up. The
// table stays.
func TestASampleThatCantBeMovedBeginsAnew(t *testing.T) {
	t.Parallel()
	heavy := agreeing(Config{Capacity: 256})
	l := newLimiter(t, heavy, core.PerHour(10).Named("api"))
	ask(l, "user:busy", 500)
	for client := range 5000 {
		ask(l, fmt.Sprint("user:", client), 1)
	}
	ask(l, "user:busy", 500)
	must.OK(t, heavy.agree(t.Context()))
	api := heavy.Snapshot().Limit("api")
	if busy, ok := api.Client("user:busy"); !ok || busy.Minute.Requests != 1000 || busy.Minute.Denied < 980 {
		t.Errorf("the busy client: %+v", busy)
	}
	check.Equal(t, "clients in the sample", api.Use.Clients, 0)
	ask(l, "user:1", 2)
	check.Equal(t, "clients then", heavy.Snapshot().Limit("api").Use.Clients, 1)
}

func TestAnAgreementThatIsNone(t *testing.T) {
	t.Parallel()
	heavy := newTracker(Config{Exchange: &exchange.Memory{Secret: []byte("short")}})
	if err := heavy.agree(t.Context()); err == nil {
		t.Error("a short secret is accepted")
	}
}
