package main

import (
	"cmp"
	"context"
	"crypto/tls"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/redisclient"
)

// keyPrefix is the prefix of the application's keys in Redis.
func (a *app) keyPrefix() string {
	return cmp.Or(a.prefix, a.env("WEBLIMIT_PREFIX"), redisstore.DefaultPrefix)
}

// quiet drops what go-redis logs: each answer has its error, and a server's text must not reach the
// terminal as it is.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// redisClient returns a client of the Redis that the flags name.
func (a *app) redisClient(t *target, security *tls.Config) (redis.UniversalClient, error) {
	if a.cluster && a.sentinel != "" {
		return nil, usagef("--cluster and --sentinel-master exclude each other")
	}
	rdb, err := redisclient.New(redisclient.Server{
		URL: t.redis, User: t.user, Password: t.password,
		Cluster: a.cluster, Master: a.sentinel, SentinelPassword: a.env("WEBLIMIT_SENTINEL_PASSWORD"),
		TLS: security, Timeout: a.timeout, MaxRetries: 1, Wrap: bounded,
	})
	if err != nil {
		return nil, usagef("--redis: %w", err)
	}
	return rdb, nil
}
