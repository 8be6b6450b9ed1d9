package faults_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// manyAsk has many goroutines ask n times together.
func manyAsk(n int, ask func()) {
	const goroutines = 64
	atOnce(goroutines, func(g int) {
		for range (n + g) / goroutines {
			ask()
		}
	})
}

// An outage does not flood listeners with events. No error is lost either: the counts
// of a class's events add up to its errors.
func TestEventsAreFew(t *testing.T) {
	t.Parallel()
	decisions := long.Rounds(5_000, 100_000)
	t.Run("of a server that is gone", func(t *testing.T) {
		t.Parallel()
		server := redistest.StartTCP(t)
		a := newApp(t, server, server.Client(t), "Deny")
		server.Kill()
		start := time.Now()
		manyAsk(decisions, func() { a.ask("k") })
		took := time.Since(start)
		figure(t, "failing decisions", decisions)
		figure(t, "events", len(a.heard.all()))
		figure(t, "a failing decision takes", took/time.Duration(decisions))
		// The outage began, the breaker opened, and one event per class every 10 seconds.
		if n := len(a.heard.all()); n > 4+2*int(took/(10*time.Second)) {
			t.Errorf("%d events; %v", n, a.heard)
		}
	})
	t.Run("of a key that can't be read", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		a := newApp(t, server, server.Client(t), "Deny")
		c, key := server.Client(t), a.learn(t, server)
		mustRun(t, c.Del(t.Context(), key))
		mustRun(t, c.LPush(t.Context(), key, "of another application"))
		start := time.Now()
		manyAsk(decisions, func() { a.ask(planted) })
		took := time.Since(start)
		figure(t, "events of failing decisions", a.heard.count(store.EventStoreError))
		if n, most := a.heard.count(store.EventStoreError), 2+int(took/(10*time.Second)); n > most {
			t.Errorf("%d events in %v, want at most %d", n, took, most)
		}
		if !long.Run() {
			return // TestEventsCountAllErrors of core/store has the sum, without waiting
		}
		time.Sleep(10 * time.Second) // then the next error's event counts all before it
		a.ask(planted)
		sum := int64(0)
		for _, e := range a.heard.of(store.EventStoreError) {
			if e.Class != redisstore.ClassType || e.Count < 1 {
				t.Errorf("an event of class %q counts %d", e.Class, e.Count)
			}
			sum += e.Count
		}
		figure(t, "errors that they count together", sum)
		if sum != int64(decisions)+1 {
			t.Errorf("the events count %d errors, there were %d", sum, decisions+1)
		}
	})
}

func TestAnOutageBeginsAndEndsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	a := newApp(t, server, server.Client(t), "Local")
	a.learn(t, server)
	start := time.Now()
	server.Kill()
	manyAsk(1000, func() { a.ask("k") })
	server.Restart(t)
	eventually(t, "the outage's end", func() bool {
		a.ask("k")
		return a.heard.count(store.EventOutageEnded) > 0
	})
	lasted := time.Since(start)
	manyAsk(1000, func() { a.ask("k") })
	for kind, node := range map[store.EventKind]string{
		store.EventOutageBegan: a.node, store.EventOutageEnded: "",
		store.EventBreakerOpened: a.node, store.EventBreakerClosed: a.node,
	} {
		a.heard.atLeast(1, kind)
		events := a.heard.of(kind)
		if len(events) != 1 {
			t.Errorf("%d events %q, want one; events: %v", len(events), kind, a.heard)
			continue
		}
		e := events[0]
		check.Equal(t, fmt.Sprintf("%v: node", kind), e.Node, node)
		switch kind {
		case store.EventOutageBegan, store.EventBreakerOpened:
			if e.Class != store.ClassConnection || e.Err == nil || e.Duration != 0 {
				t.Errorf("%v: %+v", kind, e)
			}
		default:
			figure(t, string(kind)+" after", e.Duration)
			if e.Duration <= 0 || e.Duration > lasted || e.Err != nil {
				t.Errorf("%v: %+v, want one that lasted at most %v", kind, e, lasted)
			}
		}
	}
}

// Apart: it replaces the process's logger.
func TestAnOutageIsLoggedWhereNobodyListens(t *testing.T) {
	if child.Apart(t) {
		return
	}
	logger, writer, flags := slog.Default(), log.Writer(), log.Flags()
	defer func() {
		slog.SetDefault(logger)
		log.SetOutput(writer)
		log.SetFlags(flags)
	}()
	var text child.Output
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	server := redistest.StartTCP(t)
	server.Kill()
	store := redisstore.New(server.Client(t), redisstore.Config{Prefix: redistest.Prefix(t)})
	l := newPatient(t, store, atMost(1000, "api"))
	ask := func() { l.AllowKey(context.Background(), "a client", 1) }
	start := time.Now()
	manyAsk(10_000, ask)
	server.Restart(t)
	eventually(t, "the outage's end", func() bool {
		ask()
		return strings.Contains(text.String(), "outage ended") && strings.Contains(text.String(), "breaker closed")
	})
	tens := int(time.Since(start) / (10 * time.Second)) // each brings one more line of errors
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	figure(t, "lines logged of an outage with 10,000 decisions", len(lines))
	for _, want := range []string{
		`level=WARN msg="weblimit: outage began" class=connection node=` + server.Addr(),
		`level=WARN msg="weblimit: store error" class=connection node=` + server.Addr() + ` count=`,
		`level=WARN msg="weblimit: breaker opened" class=connection node=` + server.Addr(),
		`level=INFO msg="weblimit: breaker closed" node=` + server.Addr() + ` duration=`,
		`level=INFO msg="weblimit: outage ended" `,
	} {
		least, most := 1, 1
		if strings.Contains(want, "store error") {
			least, most = 0, 1+tens // the line of the outage has the first error
		}
		if n := strings.Count(text.String(), want); n < least || n > most {
			t.Errorf("%d lines have %s, want one:\n%s", n, want, text.String())
		}
	}
	if strings.Contains(text.String(), "a client") {
		t.Errorf("the log holds a client's key:\n%s", text.String())
	}
}
