package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// collected returns what an exchange collects, sorted.
func collected(t *testing.T, e *redisstore.Exchange) []string {
	t.Helper()
	all := must.Get(e.Collect(t.Context()))(t)
	var texts []string
	for _, each := range all {
		texts = append(texts, string(each))
	}
	slices.Sort(texts)
	return texts
}

func publish(t *testing.T, e *redisstore.Exchange, instance, snapshot string, ttl time.Duration) {
	t.Helper()
	must.OK(t, e.Publish(t.Context(), instance, []byte(snapshot), ttl))
}

func TestSnapshotsAreExchanged(t *testing.T) {
	t.Parallel()
	ring, _ := newRing(t)
	clients := map[string]redis.UniversalClient{
		"one server": redistest.Shared(t).Client(t),
		"a Cluster":  redistest.SharedCluster(t).Client(t),
		"a Ring":     ring,
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := redistest.Prefix(t)
			a := redisstore.New(client, redisstore.Config{Prefix: prefix}).Exchange()
			b := redisstore.New(client, redisstore.Config{Prefix: prefix}).Exchange()
			other := redisstore.New(client, redisstore.Config{Prefix: prefix + "other:"}).Exchange()
			if got := collected(t, a); got != nil {
				t.Errorf("before anything was published: %q", got)
			}
			publish(t, a, "a", "first", time.Minute)
			publish(t, b, "b", "of b", time.Minute)
			publish(t, a, "a", "second", time.Minute)
			publish(t, other, "c", "other", time.Minute)
			for range 20 {
				publish(t, b, fmt.Sprintf("gone-%d", len(collected(t, b))), "gone", time.Millisecond)
			}
			time.Sleep(5 * time.Millisecond) // until those of a millisecond have expired in Redis
			check.Slices(t, "collected", collected(t, b), []string{"of b", "second"})
			for _, proposal := range []string{"one", "two"} {
				if got, err := a.Agree(t.Context(), []byte(proposal)); err != nil || string(got) != "one" {
					t.Errorf("proposed %s: agreed on %q, %v; want the first proposal", proposal, got, err)
				}
			}
		})
	}
}

func TestSnapshotsFollowASlotThatMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartClusterOf(t, 2, 0)
	e := redisstore.New(cluster.Client(t)).Exchange()
	slot := redisstore.SlotOf(redisstore.DefaultPrefix + "{#exchange}:instances")
	publish(t, e, "a", "of a", time.Minute)
	from, masters := cluster.MasterOf(t, slot), cluster.Masters()
	to := masters[0]
	if to == from {
		to = masters[1]
	}
	for _, to := range []*redistest.Server{to, from} {
		cluster.MoveSlot(t, slot, to)
		publish(t, e, "b", "of b", time.Minute)
		check.Slices(t, "collected", collected(t, e), []string{"of a", "of b"})
	}
}

// No instance is lost from the list, however many publish at once, and all of it expires.
func TestInstancesPublishAtOnce(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	e := redisstore.New(client, redisstore.Config{Prefix: prefix}).Exchange()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			for range 5 {
				check.OK(t, e.Publish(context.Background(), fmt.Sprint("i-", i), []byte(fmt.Sprint(i)), time.Minute))
			}
		})
	}
	all.Wait()
	if got := collected(t, e); len(got) != 50 {
		t.Errorf("collected %d snapshots of 50 instances", len(got))
	}
	for _, key := range client.Keys(t.Context(), prefix+"*").Val() {
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("%s expires in %v", key, ttl)
		}
	}
}

func TestWhatCanNotBePublished(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	e := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)}).Exchange()
	for name, err := range map[string]error{
		"no name":           e.Publish(t.Context(), "", nil, time.Second),
		"a name of 2 words": e.Publish(t.Context(), "a b", nil, time.Second),
		"a line":            e.Publish(t.Context(), "a\n", nil, time.Second),
		"a brace":           e.Publish(t.Context(), "}", nil, time.Second),
		"a long name":       e.Publish(t.Context(), strings.Repeat("a", 65), nil, time.Second),
		"a large snapshot":  e.Publish(t.Context(), "a", make([]byte, 256<<10+1), time.Second),
		"no time":           e.Publish(t.Context(), "a", nil, 0),
		"a day":             e.Publish(t.Context(), "a", nil, 24*time.Hour),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "weblimit: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.Agree(t.Context(), make([]byte, 65)); err == nil {
		t.Error("a long proposal")
	}
	for i := range 1000 {
		publish(t, e, fmt.Sprint(i), "", time.Hour)
	}
	if err := e.Publish(t.Context(), "1001", nil, time.Minute); err == nil || !strings.Contains(err.Error(), "1000 instances") {
		t.Errorf("the instance after 1,000: %v", err)
	}
	publish(t, e, "7", "again", time.Hour)
	if got := collected(t, e); len(got) != 1000 || got[999] != "again" {
		t.Errorf("collected %d snapshots", len(got))
	}
}

// Whoever can write to Redis can't make instances hold more than Publish would have let through.
func TestSnapshotsThatAreTooLargeAreLeftOut(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	e := redisstore.New(client, redisstore.Config{Prefix: prefix}).Exchange()
	publish(t, e, "small", "small", time.Minute)
	publish(t, e, "large", "x", time.Minute)
	must.OK(t, client.Set(t.Context(), prefix+"{#exchange}:of:large", strings.Repeat("x", 256<<10+1), time.Minute).Err())
	if got := collected(t, e); !slices.Equal(got, []string{"small"}) {
		t.Errorf("collected %d snapshots, want the small one", len(got))
	}
}

func TestSnapshotsAreExchangedAfterAScriptFlush(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := redisstore.New(server.Client(t)).Exchange()
	for _, snapshot := range []string{"first", "second"} {
		publish(t, e, "a", snapshot, time.Minute)
		if _, err := e.Agree(t.Context(), []byte("x")); err != nil {
			t.Error(err)
		}
		if got := collected(t, e); !slices.Equal(got, []string{snapshot}) {
			t.Errorf("collected %q, want %q", got, snapshot)
		}
		redistest.Prepare(t, server.Client(t), func(p redis.Pipeliner) { p.ScriptFlush(t.Context()) })
	}
}

// docs/run/redis.md promises that the exchange needs no further permission.
func TestSnapshotsAreExchangedUnderTheLeastPrivilege(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../docs/run/redis.md"))(t)
	line := regexp.MustCompile(`(?m)^ACL SETUSER weblimit on >secret (.*)$`).FindSubmatch(text)
	server := redistest.Start(t)
	server.User(t, "weblimit", strings.Fields(string(line[1]))...)
	s := redisstore.New(server.ClientAs(t, "weblimit"))
	e := s.Exchange()
	publish(t, e, "a", "of a", time.Minute)
	must.Get(s.Registry().Server().Swap(t.Context(), []string{"k"}, []string{"v"}, time.Minute))(t)
	if _, err := e.Agree(t.Context(), []byte("x")); err != nil {
		t.Error(err)
	}
	check.Slices(t, "collected", collected(t, e), []string{"of a"})
}

// The exchange has keys of its own: lists of blocks don't show them, and a client that is
// named like them shares nothing with them.
func TestSnapshotsAreNoClients(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	s := redisstore.New(client, redisstore.Config{Prefix: prefix})
	publish(t, s.Exchange(), "a", "of a", time.Minute)
	rule := mustRule(t, core.PerHour(2).Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour}))
	for range 3 {
		take(t, s, checkOf("#exchange", rule, 1))
	}
	blocks := 0
	for b, err := range s.Blocks(t.Context(), []*core.Rule{rule}) {
		if err != nil || b.Key != "#exchange" {
			t.Errorf("a block of %q, %v", b.Key, err)
		}
		blocks++
	}
	if got := collected(t, s.Exchange()); blocks != 1 || !slices.Equal(got, []string{"of a"}) {
		t.Errorf("%d blocks and snapshots %q, want 1 and that of a", blocks, got)
	}
}

// A frozen Redis holds the exchange up for a second, and not at all once the breaker is open,
// which the exchange itself does not open.
func TestTheExchangeInAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redisstore.New(server.Client(t), redisstore.Config{DenialCache: redisstore.DenialCache{Disabled: true}})
	e := s.Exchange()
	publish(t, e, "a", "of a", time.Minute)
	rule := mustRule(t, core.PerHour(1000))
	take(t, s, checkOf("k", rule, 1))
	s.BeAsPatientAsUsual()
	opened := make(chan struct{}, 1)
	s.OnEvent(func(e store.Event) {
		if e.Kind == store.EventBreakerOpened {
			opened <- struct{}{}
		}
	})
	server.Freeze(t)
	timed := func(f func() error) (took time.Duration, class store.Class) {
		began := time.Now()
		var known *store.Error
		if err := f(); !errors.As(err, &known) {
			t.Errorf("%v, want an error of the store", err)
			return 0, ""
		}
		return time.Since(began), known.Class
	}
	publishing := func() error { return e.Publish(t.Context(), "a", bytes.Repeat([]byte("a"), 1000), time.Minute) }
	if took, class := timed(publishing); took > 30*time.Second || class != store.ClassTimeout { // for a busy machine
		t.Errorf("while Redis is frozen: %v after %v", class, took)
	}
	wait.Until(t, "the breaker is open", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_ = s.Take(ctx, []core.Check{checkOf("k", rule, 1)}, make([]core.Result, 1))
		return len(opened) > 0
	})
	for name, f := range map[string]func() error{
		"publish": publishing,
		"collect": func() error { _, err := e.Collect(t.Context()); return err },
		"agree":   func() error { _, err := e.Agree(t.Context(), nil); return err },
	} {
		if took, class := timed(f); took > 30*time.Second || class != store.ClassOpen { // which says that Redis was not asked
			t.Errorf("%s with an open breaker: %v after %v", name, class, took)
		}
	}
}
