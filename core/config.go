package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Config sets up a [Limiter].
type Config struct {
	// Store is where the limits' state lives. Required.
	Store Store

	// Limits are decided together for each request: all are charged, or none
	// is. At least one, each with a name of its own.
	Limits []Limit

	// Bypass lets requests through for which any of the conditions holds: health
	// checks, trusted tokens, networks of one's own. They touch no store and are
	// not counted. A condition whose answer is not known exempts nothing. CORS
	// preflights count like other requests, unless a CORS middleware in front of
	// the limiter answers them; see [keyfuncs.Preflight]. Defaults to none.
	Bypass []keyfuncs.Condition

	// Timeout is how long the store may take. A store that takes longer counts
	// as an outage; a client that hangs up does not. At least 1ms. Defaults to
	// 100ms.
	Timeout time.Duration

	// Replicas is how many processes share the store: during an outage each
	// grants that part of a limit whose policy is Local. A server that starts further
	// processes, as Fiber does with Prefork, counts with all of them. Defaults to 1.
	Replicas int

	// Fallback is what decides limits whose outage policy is Local while the
	// store does not answer. Defaults to the limits themselves, in this process,
	// divided by Replicas.
	Fallback Fallback

	// MaxWaiting bounds how many requests wait for their turn at a time, under
	// limits that let them ([Limit.Wait]). Beyond it they are denied at once.
	// Defaults to 1024.
	MaxWaiting int64

	// MaxWaitingPerKey bounds how many of them one key has under one limit, so that
	// one client can't take all places. Defaults to as many as there are free
	// places: one key that wants all gets half of them, two get a third each, and
	// one more always finds a place.
	MaxWaitingPerKey int64

	// Headers are the dialects in which clients are told of their limits.
	// Defaults to Draft11.
	Headers Headers

	// HeadersWhen says which responses have them. Defaults to Always.
	HeadersWhen HeadersWhen

	// Details are the texts of denials by language tag, such as "de" or "pt-BR":
	// the one that suits Accept-Language best becomes the detail of the body. A
	// function gets the denial and returns plain text. Defaults to English.
	Details map[string]func(Decision) string

	// OnWarning gets an event when a client reaches a level of [Limit.WarnAt],
	// once per key, level and window, of fixed and calendar windows over all
	// processes, of others in each. Calendar windows without WarnAt have levels of
	// 0.8, 0.9 and 1 then: the usage mails that such quotas need. It runs within the request, maybe many
	// at once, and must not block. Defaults to none.
	OnWarning func(context.Context, Warning)

	// Observe hears of every decision, of what is settled later, and of the store's events:
	// for metrics, traces and bills. Without one nothing is measured, and decisions
	// cost nothing more. Defaults to none.
	Observe Observer

	// Logger gets advice on what looks misconfigured, once per process and kind.
	// Defaults to slog.Default().
	Logger *slog.Logger

	// Silence switches off advice of these kinds. Defaults to none.
	Silence []Advice
}

func (c *Config) validate() error {
	switch {
	case c.Store == nil:
		return errors.New("weblimit: Config.Store is missing")
	case c.Store.Registry() == nil:
		return errors.New("weblimit: Config.Store: its Registry is nil; a wrapper returns that of the store in it")
	case len(c.Limits) == 0:
		return errors.New("weblimit: Config.Limits is empty")
	case len(c.Limits) > store.MaxChecks:
		return fmt.Errorf("weblimit: Config.Limits has %d limits, the most is %d", len(c.Limits), store.MaxChecks)
	case c.Timeout != 0 && c.Timeout < time.Millisecond:
		return fmt.Errorf("weblimit: Config.Timeout must be at least 1ms, got %v", c.Timeout)
	case c.MaxWaiting < 0:
		return fmt.Errorf("weblimit: Config.MaxWaiting must be at least 1, got %d", c.MaxWaiting)
	case c.MaxWaitingPerKey < 0:
		return fmt.Errorf("weblimit: Config.MaxWaitingPerKey must be at least 1, got %d", c.MaxWaitingPerKey)
	case c.Replicas < 0:
		return fmt.Errorf("weblimit: Config.Replicas must be at least 1, got %d", c.Replicas)
	}
	for _, b := range c.Bypass {
		if err := b.Err(); err != nil {
			return fmt.Errorf("weblimit: Config.Bypass: %s", unprefixed(err))
		}
	}
	return errors.Join(c.Headers.validate(), c.HeadersWhen.validate(), validateDetails(c.Details))
}
