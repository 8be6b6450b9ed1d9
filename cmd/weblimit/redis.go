package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/redisclient"
	"github.com/weblimit/weblimit/internal/settings"
)

// quiet drops what go-redis logs: each answer has its error, and a server's text must not reach the
// terminal as it is.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// redisServer returns the Redis of a flag's URL. A password is never taken from a flag: everybody on the machine can
// read those.
func (a *app) redisServer(flag, text string) (redisclient.Server, error) {
	if err := a.noFlags(ofPage, "an application's page, and Redis is asked: its flags begin with --redis-"); err != nil {
		return redisclient.Server{}, err
	}
	s, err := a.redis.Server(flag, text, a.input)
	if err == nil {
		err = a.redisInstead(&s)
	}
	if err != nil {
		return s, usageError{err}
	}
	if s.User != "" && s.Password == "" {
		if s.Password, err = a.askPassword(); err != nil {
			return s, err
		}
	}
	if s.User != "" && s.Password == "" {
		return s, usageError{a.redis.NoPassword()}
	}
	u := *s.URL
	u.User = nil // it is shown to people
	s.URL, s.Timeout, s.MaxRetries, s.Wrap = &u, a.timeout.Duration, 1, bounded
	return s, nil
}

// redisInstead refuses variables of a page where no page is named, if Redis has none of its own: they were Redis's, too,
// and without an authority that somebody has chosen, all would be believed.
func (a *app) redisInstead(s *redisclient.Server) error {
	return errors.Join(
		a.instead("user", "redis-user", s.User == ""),
		a.instead("password", "redis-password", s.Password == ""),
		a.instead("password-file", "redis-password-file", s.Password == ""),
		a.instead("cacert", "redis-cacert", s.URL.Scheme == "rediss" && a.set.From("redis-cacert") == settings.Unset),
	)
}

// instead refuses the variable of a page's setting where no page is named, but something is that needs another setting.
func (a *app) instead(ofPage, needed string, needs bool) error {
	if !needs || a.page.url != "" || a.set.From(ofPage) != settings.Environment {
		return nil
	}
	return fmt.Errorf("%s is for an application's page: set %s", settings.Variable(ofPage), settings.Variable(needed))
}

// redisClient returns a client of a Redis.
func redisClient(s redisclient.Server) (redis.UniversalClient, error) {
	rdb, err := redisclient.New(s)
	if err != nil {
		return nil, usagef("--redis: %w", err)
	}
	return rdb, nil
}

// keyPrefix is the prefix of the application's keys in Redis.
func (a *app) keyPrefix() string { return string(a.redis.Prefix) }
