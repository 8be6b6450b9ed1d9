// Code generated from fiberlimit/with.go by make twins; DO NOT EDIT.

package fiber3limit

import (
	"context"

	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// Settings are what all limiters of an application share: store, bypasses, headers, denials.
// They are made by [With], and safe for concurrent use.
type Settings struct {
	shared *adapter.Settings
	config []Config
}

// With returns the settings for all limiters of an application, whether they are for all
// requests, a group or a route:
//
//	limits := fiber3limit.With(core.Config{Store: store, Bypass: bypass}, fiber3limit.Config{Denied: denied})
//	app.Use(limits.Limit(perClient))
//	app.Post("/login", limits.Limit(login), handler)
//
// A request that bypasses one of these limiters bypasses all of them, and all write the same
// headers. It panics if the configuration can never work, if it has Limits, which are those of
// [Settings.Limit], or if there is more than one Config. So call it at start-up, not while
// serving.
func With(settings core.Config, config ...Config) *Settings {
	if len(config) > 1 {
		panic("weblimit: fiber3limit.With: more than one Config")
	}
	return &Settings{adapter.NewSettings(settings), config}
}

// Limit returns middleware that enforces limits with these settings. The limits of one call are
// decided together: all are charged, or none is. Those of several calls on the way of a
// request are decided one after the other, and what the first has charged stays charged if the
// next denies the request. MaxWaiting is for each call.
//
// It panics if there is no limit, or one that can never work, such as a limit without By or
// with the name of another limit of the store. So call it at start-up, not while serving. It also panics as New does.
func (s *Settings) Limit(limits ...core.Limit) fiber.Handler {
	return New(s.shared.Limiter(limits...), s.config...)
}

// Policy returns middleware that enforces the policy of that name, such as one of a policy.Set: its
// limits, and whatever else it sets instead of these settings. It changes with the policy.
//
// It panics if there is no such policy, or if it can't work with these settings. So call it at
// start-up, not while serving.
func (s *Settings) Policy(policies core.Policies, name string) fiber.Handler {
	return New(s.shared.Policy(policies, name), s.config...)
}

// Limiter returns a limiter with these settings, for what middleware does not do, such as
// [core.Limiter.AllowKey] or [core.Limiter.Unblock]. It counts together with the middleware of
// equal limits. It panics as Limit does.
func (s *Settings) Limiter(limits ...core.Limit) *core.Limiter { return s.shared.Limiter(limits...) }

// Drain waits until the store knows of everything that requests have settled so far, or until
// ctx ends; see [core.Limiter.Drain]. Call it at shutdown, after the server has stopped.
func (s *Settings) Drain(ctx context.Context) error { return s.shared.Drain(ctx) }
