package limittest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Adapter is what a package of middleware exports, for a framework whose middleware is an M. G is
// its Guard.
type Adapter[M, Config any, S settingsOf[M, G], G any] struct {
	Limit func(core.Store, ...core.Limit) M
	New   func(*core.Limiter, ...Config) M
	With  func(core.Config, ...Config) S

	// Config has Skip, NoContext, Denied and Log of a layer.
	Config func(Layer) Config
}

type settingsOf[M, G any] interface {
	Limit(limits ...core.Limit) M
	Policy(policies core.Policies, name string) M
	Guard(limits ...core.Limit) G
	Measure(load *core.Load) M
}

// Middleware returns the middleware of layers, from the outside in.
func (a Adapter[M, Config, S, G]) Middleware(layers ...Layer) []M {
	var all []M
	for _, l := range layers {
		all = append(all, a.of(l))
	}
	return all
}

func (a Adapter[M, Config, S, G]) of(l Layer) M {
	switch {
	case l.Load != nil:
		return a.With(core.Config{Store: core.NewMemory()}).Measure(l.Load)
	case l.With != nil && l.Policies != nil:
		return a.settings(l.With).Policy(l.Policies, "live")
	case l.With != nil:
		return a.settings(l.With).Limit(l.Limits...)
	case l.Store != nil:
		return a.Limit(l.Store, l.Limits...)
	case !l.NoContext && l.Skip == nil && l.Denied == nil && l.Log == nil:
		return a.New(l.Limiter)
	default:
		return a.New(l.Limiter, a.Config(l))
	}
}

func (a Adapter[M, Config, S, G]) settings(s *Settings) S {
	return s.Made(func() any { return a.With(s.Config, a.Config(s.Layer)) }).(S)
}

// Guard is [Guards.Make].
func (a Adapter[M, Config, S, G]) Guard(s *Settings, limits ...core.Limit) any {
	return a.settings(s).Guard(limits...)
}

// PanicsAtStartUp checks that what can't work is refused in the name of the package.
func (a Adapter[M, Config, S, G]) PanicsAtStartUp(t *testing.T, name string) {
	l := Ample(1)
	var config Config
	for what, f := range map[string]func(){
		"no limiter":           func() { a.New(nil) },
		"two Configs":          func() { a.New(l, config, config) },
		"two Configs for With": func() { a.With(core.Config{Store: core.NewMemory()}, config, config) },
		"no load": func() {
			a.With(core.Config{Store: core.NewMemory()}).Measure(nil)
		},
		"no store": func() { a.Limit(nil, core.PerHour(1).By(keyfuncs.Everyone())) },
	} {
		t.Run(what, func(t *testing.T) {
			defer func() {
				said := fmt.Sprint(recover())
				if what != "no store" && what != "no load" && !strings.HasPrefix(said, "weblimit: "+name+".") {
					t.Errorf("panic %q", said)
				}
			}()
			f()
			t.Error("no panic")
		})
	}
}

// Allocations are those that middleware adds to a request, at most.
type Allocations struct {
	Allowed, Several, ByRoute, Denied                  int
	AllowedNoContext, SilentNoContext, DeniedNoContext int // with Config.NoContext; silent is without headers
}

// measured is middleware of which requests are counted or timed.
type measured[M any] struct {
	name       string
	middleware []M
	allocs     int
}

func (a Adapter[M, Config, S, G]) measured(allocs Allocations) []measured[M] {
	byRoute := a.Limit(core.NewMemory(), core.PerSecond(1_000_000_000).By(keyfuncs.Route()))
	noContext := a.Config(Layer{NoContext: true})
	return []measured[M]{
		{"bare", nil, 0},
		{"allowed", []M{a.New(Ample(1))}, allocs.Allowed},
		{"allowed by three limits", []M{a.New(Ample(3))}, allocs.Several},
		{"allowed by route", []M{byRoute}, allocs.ByRoute},
		{"denied", []M{a.New(Exhausted())}, allocs.Denied},
		{"allowed, with NoContext", []M{a.New(Ample(1), noContext)}, allocs.AllowedNoContext},
		{"allowed, with NoContext and without headers", []M{a.New(Silent(), noContext)}, allocs.SilentNoContext},
		{"denied, with NoContext", []M{a.New(Exhausted(), noContext)}, allocs.DeniedNoContext},
	}
}

// Allocates fails the test if middleware allocates more than want. count returns the allocations of a
// request to an app with some middleware. The test must not be parallel: all of the process counts.
func (a Adapter[M, Config, S, G]) Allocates(t *testing.T, want Allocations, count func(*testing.T, ...M) int) {
	t.Helper()
	bare := count(t)
	for _, m := range a.measured(want) {
		if got := count(t, m.middleware...) - bare; got > m.allocs {
			t.Errorf("%s: %d allocations, want at most %d", m.name, got, m.allocs)
		}
	}
}

// Benchmark times requests to an app with each kind of middleware, and with none.
func (a Adapter[M, Config, S, G]) Benchmark(b *testing.B, serve func(*testing.B, ...M)) {
	for _, m := range a.measured(Allocations{}) {
		b.Run(m.name, func(b *testing.B) { serve(b, m.middleware...) })
	}
}

// OfHandler returns the functions for [Adapter.Allocates] and [Adapter.Benchmark], for a framework
// over net/http.
func OfHandler[M any](app func(...M) http.Handler) (count func(*testing.T, ...M) int, serve func(*testing.B, ...M)) {
	return func(t *testing.T, m ...M) int { return Allocs(t, app(m...)) },
		func(b *testing.B, m ...M) { Benchmark(b, app(m...)) }
}
