package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"net/url"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
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
	if a.cluster || a.sentinel != "" {
		return a.severalServers(t, security)
	}
	o, err := redis.ParseURL(t.redis.String())
	if err != nil {
		return nil, usagef("--redis: %w", err)
	}
	o.Username, o.Password = t.user, t.password
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.MaxRetries = a.timeout, a.timeout, a.timeout, 1
	o.TLSConfig = withServer(security, o.TLSConfig)
	o.Dialer = dialer(redis.NewDialer(o)).bounded()
	return redis.NewClient(o), nil
}

func (a *app) severalServers(t *target, security *tls.Config) (redis.UniversalClient, error) {
	u, db := *t.redis, 0
	if a.sentinel != "" {
		// The number of the database is not for Clusters, whose URLs are parsed here.
		single, err := redis.ParseURL((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
		if err != nil {
			return nil, usagef("--redis: %w", err)
		}
		db = single.DB
	}
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, usagef("--redis: %w", err)
	}
	o.TLSConfig = withServer(security, o.TLSConfig)
	o.Dialer = dialer(redis.NewDialer(&redis.Options{DialTimeout: a.timeout, TLSConfig: o.TLSConfig})).bounded()
	if a.sentinel != "" {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: a.sentinel, SentinelAddrs: o.Addrs, SentinelPassword: a.env("WEBLIMIT_SENTINEL_PASSWORD"),
			Username: t.user, Password: t.password, DB: db, TLSConfig: o.TLSConfig, Dialer: o.Dialer, MaxRetries: 1,
			DialTimeout: a.timeout, ReadTimeout: a.timeout, WriteTimeout: a.timeout,
		}), nil
	}
	o.Username, o.Password = t.user, t.password
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = a.timeout, a.timeout, a.timeout
	return redis.NewClusterClient(o), nil
}

// withServer returns the settings for a server, or nil if the URL asks for no TLS.
func withServer(security, ofURL *tls.Config) *tls.Config {
	if ofURL == nil {
		return nil
	}
	security = security.Clone()
	security.ServerName = ofURL.ServerName
	return security
}
