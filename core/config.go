package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Config sets up a [Limiter].
type Config struct {
	// Store holds the state of the limits. Required.
	Store Store

	// Limits are decided together for each request: either all are charged, or none is. At
	// least one is required, and each needs a different name.
	Limits []Limit

	// Bypass lets requests through for which at least one of the conditions holds, such as
	// health checks, trusted tokens and internal networks. They are not counted and take no
	// round trip to the store. A condition whose answer is unknown lets nothing through. CORS
	// preflights are counted like other requests, unless a CORS middleware in front of the
	// limiter answers them; see [keyfuncs.Preflight]. Defaults to none.
	Bypass []keyfuncs.Condition

	// Timeout is how long the store may take to decide, from 1ms to 5m. A store that takes
	// longer is out; a client that hangs up makes no difference. All requests wait for as long
	// while a store hangs, so keep it well below what clients wait for. Defaults to 100ms.
	Timeout time.Duration

	// Replicas is how many processes share the store. During an outage each of them grants
	// its share of a limit whose OutageAction is Local. Include the processes that a server starts, as
	// Fiber does with Prefork. Defaults to 1.
	Replicas int

	// Fallback decides while the store does not answer, for limits whose outage action is
	// Local. Defaults to the limits themselves, in this process, divided by Replicas.
	Fallback Fallback

	// MaxWaiting bounds how many requests wait for their turn at a time, under limits with
	// [Limit.Wait]. Further ones are denied at once. Defaults to 1024.
	MaxWaiting int64

	// MaxWaitingPerKey bounds how many of them have the same key under one limit, so that one
	// client can't take all places. Defaults to the number of free places: one greedy key gets
	// half of all places, two get a third each, and another key always finds a place. Under limits with
	// [Limit.Fair] it bounds those of one client for a key, and by default clients share the places of a key.
	MaxWaitingPerKey int64

	// Headers are the dialects of the rate limit headers. Defaults to Draft11.
	Headers Headers

	// HeadersWhen says which responses have these headers. Defaults to Always.
	HeadersWhen HeadersWhen

	// MissingKey says how requests are answered that lack the key of a limit with
	// [DenyRequest]. Defaults to 401 where a credential is missing, and to 400 elsewhere.
	MissingKey MissingKeyAnswer

	// Details are texts of denials by language tag, such as "de" or "pt-BR". The one that
	// suits Accept-Language best becomes the detail of the body. Each function gets the denial
	// and returns plain text. Defaults to English.
	Details map[string]func(Decision) string

	// OnWarning is called when a client reaches a level of [Limit.WarnAt]: once per key,
	// level and window. For fixed and calendar windows that is once over all processes, for
	// others once in each process. If it is set, calendar windows without WarnAt have levels of
	// 0.8, 0.9 and 1, as the usage mails of such quotas need. It runs within the request, several
	// at once, and must not block. Defaults to none.
	OnWarning func(context.Context, Warning)

	// Observe hears of every decision, of what is settled later, and of the store's events,
	// for metrics, traces and bills. Without an observer nothing is measured. Defaults to none.
	Observe Observer

	// Logger gets advice about likely misconfigurations, once per process and kind. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Silence switches off advice of these kinds, by their codes: "WL001". Defaults to none.
	Silence []Advice

	// Version names this configuration, such as that of a policy file; see [Decision.Version].
	// Defaults to "".
	Version string

	// MayEnd says that the code that asks [Policies] for a limiter looks for [Limiter.Ended] afterwards, so
	// that the policy can be removed while the limiter is in use. [New] does not read it. Defaults to false.
	MayEnd bool

	common  *common // what several limiters of this configuration share, or nil
	catalog bool    // calls say which limits to ask, of any number
}

// isNil reports whether an interface holds a nil pointer. Its methods would panic while
// serving.
func isNil(s Store) bool {
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func (c *Config) validate() error {
	if err := c.validateSettings(); err != nil {
		return err
	}
	switch {
	case c.catalog:
	case len(c.Limits) == 0:
		return errors.New("weblimit: Config.Limits is empty")
	case len(c.Limits) > store.MaxChecks:
		return fmt.Errorf("weblimit: Config.Limits has %d limits, the most is %d", len(c.Limits), store.MaxChecks)
	}
	return nil
}

// validateSettings checks everything but the limits.
func (c *Config) validateSettings() error {
	switch {
	case c.Store == nil:
		return errors.New("weblimit: Config.Store is missing")
	case isNil(c.Store):
		return fmt.Errorf("weblimit: Config.Store is a nil %T", c.Store)
	case isNil(c.Fallback.Store):
		return fmt.Errorf("weblimit: Config.Fallback: the store is a nil %T", c.Fallback.Store)
	case c.Store.Registry() == nil:
		return errors.New("weblimit: Config.Store: its Registry is nil; a wrapper returns that of the store in it")
	case c.Timeout != 0 && c.Timeout < time.Millisecond:
		return fmt.Errorf("weblimit: Config.Timeout must be at least 1ms, got %v", c.Timeout)
	case c.Timeout > store.MaxTimeout:
		return fmt.Errorf("weblimit: Config.Timeout must be at most %v, got %v: requests would wait for a store that hangs for as long, and no outage would begin", store.MaxTimeout, c.Timeout)
	case c.MaxWaiting < 0:
		return fmt.Errorf("weblimit: Config.MaxWaiting must be at least 1, got %d", c.MaxWaiting)
	case c.MaxWaitingPerKey < 0:
		return fmt.Errorf("weblimit: Config.MaxWaitingPerKey must be at least 1, got %d", c.MaxWaitingPerKey)
	case c.Replicas < 0:
		return fmt.Errorf("weblimit: Config.Replicas must be at least 1, got %d", c.Replicas)
	}
	for _, kind := range c.Silence {
		if err := kind.validate(); err != nil {
			return err
		}
	}
	for _, b := range c.Bypass {
		if err := b.Err(); err != nil {
			return &store.ConfigError{Path: "Config.Bypass", Err: err}
		}
	}
	return errors.Join(c.Headers.validate(), c.HeadersWhen.validate(), c.MissingKey.validate(), validateDetails(c.Details))
}
