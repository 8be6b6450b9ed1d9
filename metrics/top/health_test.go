package top

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/exchange"
	"github.com/weblimit/weblimit/internal/test/must"
)

// An instance that is in an outage, or does not ask a server, says so to all others.
func TestInstancesSayHowTheyAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := &exchange.Memory{}
		well, ill := newTracker(Config{Exchange: shared, Instance: "a"}), newTracker(Config{Exchange: shared, Instance: "b"})
		seen := func() Health {
			t.Helper()
			must.OK(t, ill.publish(t.Context()))
			s, err := well.Collect(t.Context())
			if err != nil || len(s.Instances) != 2 {
				t.Fatalf("%+v, %v", s.Instances, err)
			}
			if s.Instances[0].Health.Out || len(s.Instances[0].Health.Open) > 0 {
				t.Errorf("the other one: %+v", s.Instances[0])
			}
			return s.Instances[1].Health
		}
		want := func(when string, want Health) {
			t.Helper()
			check.Equal(t, when, fmt.Sprintf("%+v", seen()), fmt.Sprintf("%+v", want))
		}
		local := func(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()) }
		ill.StoreEvent(core.Event{Kind: store.EventOutageEnded}) // of one that it has not seen begin
		want("at first", Health{})

		began := local(time.Now())
		ill.StoreEvent(core.Event{Kind: store.EventOutageBegan, Class: store.ClassTimeout, Node: "redis:6379"})
		ill.StoreEvent(core.Event{Kind: store.EventBreakerOpened, Class: store.ClassTimeout, Node: "redis:6379"})
		ill.StoreEvent(core.Event{Kind: store.EventStoreError, Class: store.ClassTimeout, Node: "redis:6379", Count: 7})
		time.Sleep(3 * time.Second)
		want("in the outage", Health{Out: true, Since: began, Class: "timeout", Open: []Breaker{{"redis:6379", began, "timeout"}}})
		ill.StoreEvent(core.Event{Kind: store.EventOutageBegan, Class: store.ClassReadOnly}) // of a second store
		ill.StoreEvent(core.Event{Kind: store.EventOutageEnded})
		want("one of two has ended", Health{Out: true, Since: began, Class: "timeout", Open: []Breaker{{"redis:6379", began, "timeout"}}})

		ill.StoreEvent(core.Event{Kind: store.EventBreakerClosed, Node: "redis:6379"})
		ill.StoreEvent(core.Event{Kind: store.EventOutageEnded, Duration: 3 * time.Second})
		want("after it", Health{Since: began.Add(3 * time.Second), Class: "timeout", Lasted: 3 * time.Second})
	})
}

// Neither the number of servers nor what they are called makes a snapshot large, or unreadable.
func TestHealthIsBounded(t *testing.T) {
	t.Parallel()
	heavy := newTracker(Config{})
	for i := range 1000 {
		heavy.StoreEvent(core.Event{Kind: store.EventBreakerOpened, Class: "a\nclass", Node: fmt.Sprintf("/run/%04d/\xff\n%s.sock", i, strings.Repeat("é", 200))})
	}
	check.Equal(t, "servers followed", len(heavy.health.open), maxNodes)
	s := heavy.Snapshot()
	data, err := s.MarshalBinary()
	if err != nil || len(data) > 3000 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	var back Snapshot
	must.OK(t, back.UnmarshalBinary(data))
	open := back.Instances[0].Health.Open
	if len(open) != maxOpen || !strings.HasPrefix(open[0].Node, "/run/0000/??") || open[0].Class != "a?class" {
		t.Errorf("open are %+v", open)
	}
	for i := range open {
		check.Equal(t, "node", open[i].Node, s.Instances[0].Health.Open[i].Node)
	}
	if !reflect.DeepEqual(newTracker(Config{}).Snapshot().Instances[0].Health, Health{}) {
		t.Error("a new tracker has a health")
	}
}
