package limittest

import "github.com/weblimit/weblimit/core"

// Adapter is what a package of middleware exports, for a framework whose middleware is an M. G is
// its Guard.
type Adapter[M, Config any, S settingsOf[M, G], G any] struct {
	Limit   func(core.Store, ...core.Limit) M
	New     func(*core.Limiter, ...Config) M
	With    func(core.Config, ...Config) S
	Measure func(*core.Load) M

	// Config has Skip, NoContext, Denied and Log of a layer.
	Config func(Layer) Config
}

type settingsOf[M, G any] interface {
	Limit(limits ...core.Limit) M
	Policy(policies core.Policies, name string) M
	Guard(limits ...core.Limit) G
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
		return a.Measure(l.Load)
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
