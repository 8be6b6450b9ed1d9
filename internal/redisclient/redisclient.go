// Package redisclient makes the client of the Redis that an operator names: one server, a Cluster, or
// the master that Sentinels know. The commands share it.
package redisclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
)

// Server says which Redis it is.
type Server struct {
	// URL is redis://host:6379/0, rediss:// for TLS or unix:///path. Further nodes of a Cluster, or
	// further Sentinels, are parameters: ?addr=host:port. A user and a password in it are ignored.
	URL *url.URL

	User, Password string

	Cluster bool // the URL names nodes of a Cluster

	// Master is set if the URL names Sentinels: the name under which they know the master.
	Master                         string
	SentinelUser, SentinelPassword string

	// TLS is for rediss://. Its ServerName is that of the URL.
	TLS *tls.Config

	Timeout    time.Duration // to connect, to write and to read; 0 for the defaults of go-redis
	MaxRetries int           // of a command; 0 for the default of go-redis, -1 for none
	PoolSize   int           // connections per server; 0 for the default of go-redis

	// Wrap returns what connections are made with, if not with the dialer that it gets.
	Wrap func(Dialer) Dialer
}

// Dialer connects to a server.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// New returns a client. It does not connect. No error repeats the URL, which may hold a password.
func New(s Server) (redis.UniversalClient, error) {
	if s.Cluster && s.Master != "" {
		return nil, errors.New("a Redis is a Cluster or known to Sentinels, not both")
	}
	u := *s.URL
	u.User = nil
	if s.Cluster || s.Master != "" {
		return s.several(&u)
	}
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("the URL of Redis: %w", err)
	}
	o.Username, o.Password = s.User, s.Password
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.MaxRetries, o.PoolSize = s.Timeout, s.Timeout, s.Timeout, s.MaxRetries, s.PoolSize
	o.TLSConfig = s.tls(o.TLSConfig)
	o.Dialer = s.dialer(o.TLSConfig)
	return redis.NewClient(o), nil
}

func (s *Server) several(u *url.URL) (redis.UniversalClient, error) {
	db := 0
	if s.Master != "" {
		// The number of the database is not for Clusters, whose URLs are parsed below.
		single, err := redis.ParseURL((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
		if err != nil {
			return nil, fmt.Errorf("the URL of Redis: %w", err)
		}
		db = single.DB
	}
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("the URL of Redis: %w", err)
	}
	o.TLSConfig = s.tls(o.TLSConfig)
	o.Dialer = s.dialer(o.TLSConfig)
	if s.Master != "" {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: s.Master, SentinelAddrs: o.Addrs, SentinelUsername: s.SentinelUser, SentinelPassword: s.SentinelPassword,
			Username: s.User, Password: s.Password, DB: db, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
			MaxRetries: s.MaxRetries, PoolSize: s.PoolSize,
			DialTimeout: s.Timeout, ReadTimeout: s.Timeout, WriteTimeout: s.Timeout,
		}), nil
	}
	o.Username, o.Password = s.User, s.Password
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolSize = s.Timeout, s.Timeout, s.Timeout, s.PoolSize
	return redis.NewClusterClient(o), nil
}

// dialer returns what to connect with. A deadline that passes while the process has no processor says
// nothing of the server.
func (s *Server) dialer(security *tls.Config) Dialer {
	d := redisstore.NewDialer(&redis.Options{DialTimeout: s.Timeout, TLSConfig: security})
	if s.Wrap == nil {
		return d
	}
	return s.Wrap(d)
}

// tls returns the settings for a server, or nil if the URL asks for no TLS.
func (s *Server) tls(ofURL *tls.Config) *tls.Config {
	if ofURL == nil {
		return nil
	}
	security := s.TLS.Clone()
	if security == nil {
		security = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	security.ServerName = ofURL.ServerName
	return security
}
