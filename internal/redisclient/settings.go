package redisclient

import (
	"crypto/tls"
	"errors"
	"io"
	"net/url"
	"strings"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/settings"
)

// Settings are those of a command that say which Redis it is, and how to get in.
type Settings struct {
	URL    settings.String // "" for none
	Prefix settings.String // of keys

	cluster                                          settings.Bool
	master                                           settings.String
	user, password, passwordFile                     settings.String
	sentinelUser, sentinelPassword, sentinelPassFile settings.String
	ca, cert, key                                    settings.String
}

// Add adds the settings. byURL are further settings that name a Redis by a URL.
func (s *Settings) Add(g settings.Group, set *settings.Set, byURL ...string) {
	redis := append([]string{"redis"}, byURL...)
	needs := func(setting *settings.Setting) { setting.Needs(redis...) }
	g.URL("redis", &s.URL, "WEBLIMIT_REDIS_PASSWORD or --redis-password-file", "redis://host:6379/0, rediss:// for TLS, unix:///path; further nodes as ?addr=host:port")
	needs(g.Add("redis-cluster", &s.cluster, "false", "the Redis is a Cluster"))
	needs(g.Add("redis-sentinel-master", &s.master, "", "the addresses are those of Sentinels, which know the master of this name"))
	needs(g.Add("redis-user", &s.user, "", "user name for Redis"))
	needs(g.Secret("redis-password", &s.password, "password for Redis"))
	needs(g.Add("redis-password-file", &s.passwordFile, "", "file with the password for Redis"))
	const master = "redis-sentinel-master"
	g.Add("redis-sentinel-user", &s.sentinelUser, "", "user name for Sentinels").Needs(master)
	g.Secret("redis-sentinel-password", &s.sentinelPassword, "password for Sentinels").Needs(master)
	g.Add("redis-sentinel-password-file", &s.sentinelPassFile, "", "file with the password for Sentinels").Needs(master)
	needs(g.Add("redis-cacert", &s.ca, "", "PEM file of certificate authorities to trust instead of the system's"))
	needs(g.Add("redis-cert", &s.cert, "", "PEM file with a client certificate"))
	needs(g.Add("redis-key", &s.key, "", "PEM file with its key"))
	needs(g.Add("prefix", &s.Prefix, redisstore.DefaultPrefix, "what keys in Redis begin with"))
	set.Renamed("sentinel-password", "redis-sentinel-password")
}

// Server returns the server that a URL names, by default that of the settings. flag is the setting of the URL. A
// file of a password that is named - is input, if that is not nil.
func (s *Settings) Server(flag, text string, input io.Reader) (Server, error) {
	u, err := settings.ReadURL(flag, text, "redis", "rediss", "unix")
	if err != nil {
		return Server{}, err
	}
	switch {
	case bool(s.cluster) && s.master != "":
		return Server{}, errors.New("--redis-cluster and --redis-sentinel-master exclude each other")
	case strings.Contains(string(s.Prefix), "{}"):
		return Server{}, errors.New("--prefix: an empty hash tag would spread a client's keys over a Cluster")
	}
	server := Server{URL: u, User: u.User.Username(), Cluster: bool(s.cluster), Master: string(s.master), SentinelUser: string(s.sentinelUser)}
	if s.user != "" {
		server.User = string(s.user)
	}
	inURL, _ := u.User.Password()
	if server.Password, err = settings.OnePassword("redis", inURL, s.password, s.passwordFile, input); err != nil {
		return Server{}, err
	}
	if server.SentinelPassword, err = settings.OnePassword("redis-sentinel", "", s.sentinelPassword, s.sentinelPassFile, input); err != nil {
		return Server{}, err
	}
	server.TLS, err = s.security(u)
	return server, err
}

// ErrNoPassword is for a server with a user and no password.
var ErrNoPassword = errors.New("--redis-user: there is a user and no password: set WEBLIMIT_REDIS_PASSWORD or --redis-password-file")

// security returns how to trust a server.
func (s *Settings) security(u *url.URL) (*tls.Config, error) {
	if u.Scheme != "rediss" && (s.ca != "" || s.cert != "" || s.key != "") {
		return nil, errors.New("--redis-cacert and --redis-cert are for rediss://")
	}
	files := settings.TLS{CA: string(s.ca), Cert: string(s.cert), Key: string(s.key)}
	files.CAFlag, files.PairFlags = "--redis-cacert", "--redis-cert and --redis-key"
	return files.Config()
}
