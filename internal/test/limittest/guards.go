package limittest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Guards is an adapter's Guard. Its calls implement [Asker].
type Guards struct {
	// Make returns the guard of these limits by the adapter's With for the settings.
	Make func(s *Settings, limits ...core.Limit) any

	// Streams says what a denial does to a response that has begun.
	Streams Begun
}

// Begun is what a guard does with a response that has begun.
type Begun int

// What becomes of a response that has begun.
const (
	Unseen   Begun = iota // the adapter can't see it; its doc says so
	Stays                 // nothing is added
	Replaced              // it has not begun until the handler returns
)

// Asker is a [Call] whose handler can ask a guard: by its Allow, whose error the handler returns.
type Asker interface {
	Ask(guard any, key string, cost int64) (ok bool)
}

// RunGuards runs the scenarios about an adapter's Guard, over memory: it asks a limiter as middleware does.
func RunGuards(t *testing.T, adapter string, build Build, g Guards) {
	for _, s := range guards {
		t.Run(s.name, func(t *testing.T) { s.run(inMemory(t, adapter, build), g) })
	}
}

// messages is an app with "POST /messages", which asks a guard for the recipient in the body, and
// counts what it sends.
func (e *env) messages(guard any, cost int64, layers ...Layer) (*site, *atomic.Int64) {
	e.Helper()
	sent := new(atomic.Int64)
	return e.serve(App{Layers: layers, Routes: []Route{{Method: "POST", Path: "/messages", Handle: func(c Call) {
		to, err := c.Body()
		if err != nil {
			e.Error(err)
		}
		if !c.(Asker).Ask(guard, keyfuncs.Encode("to", string(to)), cost) {
			return
		}
		sent.Add(1)
		hello(c)
	}}}}), sent
}

// send sends a message.
func (s *site) send(to string, options ...option) response {
	s.e.Helper()
	return s.do("POST", "/messages", append(options, func(r *http.Request) *http.Request {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(to)), int64(len(to))
		return r
	})...)
}

var guards = []struct {
	name string
	run  func(*env, Guards)
}{
	{"a handler asks for a key of the body, in two lines, headers and 429 included", func(e *env, g Guards) {
		guard := g.Make(e.with(core.Config{}), core.PerHour(2).Named("to"))
		s, sent := e.messages(guard, 1)
		for left := range 2 {
			r := s.send("ann")
			equal(e, "status", r.status, http.StatusOK)
			e.remaining("first", r, "to", 1-left)
			equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"to";q=2;w=3600`)
		}
		r := s.send("ann")
		e.denied("third", r)
		e.remaining("third", r, "to", 0)
		equal(e, "body", r.body, problem(e.wait(r, 1800), `"to"`))
		equal(e, "Content-Type", e.only(r, "Content-Type"), core.ProblemType)
		equal(e, "Cache-Control", e.only(r, "Cache-Control"), "no-store")
		e.passes("another", s.send("ben"))
		equal(e, "messages", sent.Load(), 3)
	}},
	{"the headers are those of one limiter with the limits around the handler", func(e *env, g Guards) {
		for _, dialects := range append(oneLimit, core.Draft11) {
			settings := e.with(core.Config{Headers: dialects})
			guard := g.Make(settings, core.PerHour(2).Named("to"))
			s, _ := e.messages(guard, 1, Layer{With: settings, Limits: []core.Limit{all("client", 4).WarnAt(0.25)}})
			for _, want := range [][2]int{{2, 1}, {2, 0}} {
				r := s.send("ann")
				e.passes("ann", r)
				if dialects == core.Draft11 {
					equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"client";q=4;w=3600, "to";q=2;w=3600`)
					e.remaining("the guard", r, "to", want[1])
				} else {
					e.binds("the guard", r, dialects, want[0], want[1])
				}
			}
			r := s.send("ann")
			e.denied("ann", r)
			equal(e, "warning", e.only(r, "X-Ratelimit-Warning"), "")
			if dialects == core.Draft11 {
				e.remaining("the limit around", r, "client", 1)
				e.remaining("the guard", r, "to", 0)
			} else {
				e.binds("the guard denies", r, dialects, 2, 0)
				r = s.send("ben") // the limit around has less left
				e.passes("ben", r)
				e.binds("the limit around", r, dialects, 4, 0)
			}
		}
	}},
	{"a guard that is asked several times is one member of each field", func(e *env, g Guards) {
		guard := g.Make(e.with(core.Config{}), core.PerHour(5).Named("to"))
		s := e.serve(App{Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
			for _, ask := range []struct {
				key  string
				cost int64
			}{{"ann", 1}, {"ben", 3}, {"cleo", 2}} {
				if !c.(Asker).Ask(guard, keyfuncs.Encode("to", ask.key), ask.cost) {
					return
				}
			}
			hello(c)
		}}}})
		r := s.get("/")
		e.passes("first", r)
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"to";q=5;w=3600`)
		e.remaining("the least of three recipients", r, "to", 2)
		equal(e, "members of RateLimit", strings.Count(e.only(r, "Ratelimit"), "to"), 1)
		r = s.get("/")
		e.denied("second", r)
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"to";q=5;w=3600`)
		e.remaining("the recipient that denies", r, "to", 2)
	}},
	{"Denied and Skip of the settings hold for a guard", func(e *env, g Guards) {
		settings := e.with(core.Config{})
		settings.Layer = Layer{
			Skip:   func(header func(string) string) bool { return header("X-Skip") != "" },
			Denied: func(d core.Decision) (int, string) { return http.StatusTeapot, d.Reason.String() },
		}
		s, sent := e.messages(g.Make(settings, core.PerHour(1).Named("to")), 1)
		e.passes("first", s.send("ann"))
		r := s.send("ann")
		equal(e, "status", r.status, http.StatusTeapot)
		equal(e, "body", r.body, "limit exceeded")
		e.remaining("denied", r, "to", 0)
		r = s.send("ann", with("X-Skip", "1"))
		equal(e, "body", r.body, "hello")
		e.silent("skipped", r)
		equal(e, "messages", sent.Load(), 2)
	}},
	{"a Denied that sets no status still denies for a guard", func(e *env, g Guards) {
		for _, body := range []string{"", "slow down"} {
			settings := e.with(core.Config{})
			settings.Layer = Layer{Denied: func(core.Decision) (int, string) { return 0, body }}
			s, sent := e.messages(g.Make(settings, core.PerHour(1).Named("to")), 1)
			e.passes("first", s.send("ann"))
			r := s.send("ann")
			e.denied("second", r)
			if body == "" {
				body = problem(e.wait(r, 3600), `"to"`)
			}
			equal(e, "body", r.body, body)
			equal(e, "messages", sent.Load(), 1)
		}
	}},
	{"a bypass passes a guard, by token and by route, and asks no store", func(e *env, g Guards) {
		for what, bypass := range map[string]keyfuncs.Condition{"token": keyfuncs.Tokens("X-Bypass-Token", token), "route": keyfuncs.Routes("POST /messages")} {
			store := e.counting()
			guard := g.Make(e.with(core.Config{Store: store, Bypass: []keyfuncs.Condition{bypass}}), core.PerHour(1).Named("to"))
			s, _ := e.messages(guard, 1)
			for range 3 {
				r := s.send("ann", with("X-Bypass-Token", token))
				e.passes(what, r)
				e.silent(what, r)
			}
			equal(e, what+": round trips", store.asked(), 0)
		}
	}},
	{"several limits of a guard are one round trip, all or nothing", func(e *env, g Guards) {
		store := e.counting()
		guard := g.Make(e.with(core.Config{Store: store}), core.PerHour(9).Named("hour"), core.PerDay(4).FixedWindow().Named("day"))
		s, _ := e.messages(guard, 3)
		e.remaining("first", s.send("ann"), "hour", 6)
		r := s.send("ann")
		e.denied("second", r)
		e.remaining("second", r, "hour", 6)
		e.remaining("second", r, "day", 1)
		equal(e, "round trips", store.asked(), 2)
	}},
	{"observers hear of the adapter, the method and the route of a guarded request", func(e *env, g Guards) {
		seen := new(observer)
		settings := e.with(core.Config{Observe: seen, Bypass: []keyfuncs.Condition{keyfuncs.Tokens("X-Bypass-Token", token)}})
		s, _ := e.messages(g.Make(settings, core.PerDay(1).Named("to")), 1)
		s.send("ann")
		s.send("ann")
		s.send("ann", with("X-Bypass-Token", token))
		seen.hears(e, "POST /messages within limit to:ann*1", "POST /messages limit exceeded to:ann*1", "POST /messages bypassed ")
	}},
	{"a key of the body may be long, odd or empty, and outlives the request", func(e *env, g Guards) {
		settings := e.with(core.Config{})
		guard := g.Make(settings, core.PerHour(1).Named("to"))
		s, _ := e.messages(guard, 1)
		for _, to := range []string{"", strings.Repeat("x", 1<<20), "a\x00b", "{ann}", "ann\r\nX-Evil: 1", "ann|to:ben", "ann", "ben"} {
			what := fmt.Sprintf("%.20q", to)
			e.passes(what, s.send(to))
			r := s.send(to)
			e.denied(what, r)
			equal(e, what, r.header.Get("X-Evil"), "")
		}
		d := guard.(interface{ Limiter() *core.Limiter }).Limiter().AllowKey(context.Background(), keyfuncs.Encode("to", "ann"), 1)
		equal(e, "allowed for a worker, which counts in the same bucket", d.Allowed, false)
	}},
	{"in an outage a guard decides by its limits' policies", func(e *env, g Guards) {
		for policy, want := range map[core.OutageAction]int{core.Allow: 200, core.Deny: 503, core.Local: 200} {
			settings := e.with(core.Config{Store: e.failing(), Replicas: 2})
			s, _ := e.messages(g.Make(settings, core.PerHour(2).Named("to").OnOutage(policy)), 1)
			equal(e, "first", s.send("ann").status, want)
			if policy == core.Local {
				want = 429
			}
			equal(e, "second", s.send("ann").status, want)
		}
	}},
	{"a guard's limits may wait, warn and be in shadow mode", func(e *env, g Guards) {
		s, _ := e.messages(g.Make(e.with(core.Config{}), core.PerSecond(50).LeakyBucket(time.Minute).Named("pace"), core.PerHour(1).Named("trial").Shadow()), 1)
		began := time.Now()
		for range 3 {
			e.passes("paced", s.send("ann"))
		}
		equal(e, "waited", time.Since(began) > 30*time.Millisecond, true)
		s, _ = e.messages(g.Make(e.with(core.Config{}), core.PerHour(2).Named("to").WarnAt(0.5)), 1)
		equal(e, "warning", e.only(s.send("ann"), "X-Ratelimit-Warning"), `approaching limit; policy="to"; used=50%`)
	}},
	{"what has no effect in a handler, or needs its end, panics at start-up", func(e *env, g Guards) {
		limit := core.PerHour(9).Named("to")
		everyone := keyfuncs.Everyone()
		for what, limits := range map[string][]core.Limit{
			"By has no effect in a handler":           {limit.By(everyone)},
			"OnMissingKey has no effect":              {limit.OnMissingKey(core.DenyRequest)},
			"Cost has no effect":                      {limit.Cost(2)},
			"Cost has no effect ":                     {limit.CostBy(func(keyfuncs.Request) int64 { return 1 })},
			"When has no effect":                      {limit.When(keyfuncs.Methods("GET"))},
			"Tiers has no effect":                     {limit.Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(1) })},
			"KeepFree has no effect":                  {limit.KeepFree(0.5, keyfuncs.Methods("GET"))},
			"OncePer has no effect":                   {limit.OncePer(everyone, time.Hour)},
			"Estimate needs to know when the request": {limit.Estimate(2)},
			"RefundOn needs to know":                  {limit.RefundOn(core.ServerErrors)},
			"Concurrent needs to know":                {core.Concurrent(2).Named("to")},
			"Config.Limits is empty":                  nil,
			"quota must be at least 1":                {core.PerHour(0).Named("to")},
		} {
			func() {
				defer func() { contains(e, what, fmt.Sprint(recover()), strings.TrimSpace(what)) }()
				g.Make(e.with(core.Config{}), limits...)
			}()
		}
	}},
	{"a denial clears what described the handler's response", func(e *env, g Guards) {
		guard := g.Make(e.with(core.Config{}), core.PerHour(1).Named("to"))
		s := e.serve(App{Outer: http.Header{"Etag": {`"1"`}, "Last-Modified": {"Mon, 02 Jan 2006 15:04:05 GMT"}}, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
			if c.(Asker).Ask(guard, "to:ann", 1) {
				hello(c)
			}
		}}}})
		equal(e, "ETag", e.only(s.get("/"), "Etag"), `"1"`)
		r := s.get("/")
		e.denied("second", r)
		equal(e, "ETag", e.only(r, "Etag"), "")
		equal(e, "Last-Modified", e.only(r, "Last-Modified"), "")
	}},
	{"a response that has begun is not spoilt by a denial", func(e *env, g Guards) {
		guard := g.Make(e.with(core.Config{}), core.PerHour(1).Named("to"))
		s := e.serve(App{Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
			if g.Streams == Unseen { // it asks the limiter itself, and ends its stream in its own way
				limiter := guard.(interface{ Limiter() *core.Limiter }).Limiter()
				stream(c, func() bool { d := limiter.AllowKey(c.Context(), "to:ann", 1); return d.Allowed })
				return
			}
			stream(c, func() bool { return true })
			c.(Asker).Ask(guard, "to:ann", 1)
		}}}})
		for i := range 2 {
			r := s.get("/")
			switch {
			case g.Streams == Replaced && i == 1:
				e.denied("replaced", r)
				equal(e, "body", r.body, problem(e.wait(r, 3600), `"to"`))
			case g.Streams == Unseen && i == 1:
				equal(e, "status", r.status, http.StatusOK)
				equal(e, "body", r.body, "")
			default:
				equal(e, "status", r.status, http.StatusOK)
				equal(e, "body", r.body, "chunk")
			}
		}
	}},
}

// stream streams one chunk, if more allows it.
func stream(c Call, more func() bool) {
	sent := false
	c.Stream(func() (string, bool) {
		if sent || !more() {
			return "", false
		}
		sent = true
		return "chunk", true
	})
}
