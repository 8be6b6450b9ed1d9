package limittest

import (
	"net/http"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/keyfuncs"
)

// oneLive has one policy, whose limiter changes while it serves.
type oneLive struct {
	live   compose.Live
	config core.Config // of the settings
	limits []core.Limit
}

// Limiter implements [core.Policies].
func (p *oneLive) Limiter(config core.Config, _ string) (*core.Limiter, error) {
	p.config = config
	config.Limits, config.Version = p.limits, "1"
	return p.live.Limiter(config)
}

// change replaces the limits.
func (p *oneLive) change(version string, limits ...core.Limit) error {
	config := p.config
	config.Limits, config.Version = limits, version
	return p.live.Replace(config)
}

// livePolicy builds an app whose route is behind a policy with these limits.
func (e *env) livePolicy(handle func(Call), limits ...core.Limit) (*oneLive, *site) {
	e.Helper()
	p := &oneLive{limits: limits}
	layer := Layer{With: e.with(core.Config{}), Policies: p}
	return p, e.serve(App{Routes: []Route{{Method: "GET", Path: "/", Layers: []Layer{layer}, Handle: handle}}})
}

var policies = []scenario{
	{"a policy changes while it serves, and what was used stays used", func(e *env) {
		p, s := e.livePolicy(func(c Call) {
			d, _ := c.Decision()
			c.Reply(http.StatusOK, d.Version())
		}, all("a", 5))
		for i := range 3 {
			r := s.get("/")
			equal(e, "version", r.body, "1")
			e.remaining("before", r, "a", 4-i)
		}
		if err := p.change("2", all("a", 4), all("b", 9)); err != nil {
			e.Fatal(err)
		}
		r := s.get("/")
		equal(e, "version", r.body, "2")
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"a";q=4;w=3600, "b";q=9;w=3600`)
		e.remaining("after", r, "b", 8)
		e.denied("the second version", s.get("/"))
		if err := p.change("3", all("b", 9)); err != nil {
			e.Fatal(err)
		}
		r = s.get("/")
		equal(e, "version", r.body, "3")
		e.remaining("the third version", r, "b", 7)
	}},
	{"a policy that can't work changes nothing", func(e *env) {
		p, s := e.livePolicy(hello, all("a", 5))
		s.get("/")
		if err := p.change("2", all("a", 5).Cost(6)); err == nil {
			e.Error("no error for a cost that can never fit")
		}
		if err := p.change("2", all("a", 9), all("a", 5)); err == nil {
			e.Error("no error for two limits of one name")
		}
		e.remaining("after", s.get("/"), "a", 3)
	}},
	{"a request is settled by the policy that it began with", func(e *env) {
		var p *oneLive
		var change sync.Once
		p, s := e.livePolicy(func(c Call) {
			change.Do(func() {
				if err := p.change("2", all("other", 9)); err != nil {
					e.Error(err)
				}
			})
			c.Reply(http.StatusInternalServerError, "")
		}, core.Concurrent(1).By(keyfuncs.Everyone()).Named("running"), all("failed", 1).RefundOn(core.ServerErrors))
		s.get("/")
		if err := p.change("3", core.Concurrent(1).By(keyfuncs.Everyone()).Named("running"), all("failed", 1)); err != nil {
			e.Fatal(err)
		}
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // settled in the background
			if r := s.get("/"); r.status == http.StatusInternalServerError {
				break
			} else if time.Now().After(end) {
				e.Fatalf("the slot, or the refund, of the request is lost: %d %s", r.status, r.body)
			}
		}
	}},
}
