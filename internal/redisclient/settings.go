package redisclient

import (
	"crypto/tls"
	"fmt"
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

	before string // what the names of the settings begin with

	cluster                                          settings.Bool
	master                                           settings.String
	user, password, passwordFile                     settings.String
	sentinelUser, sentinelPassword, sentinelPassFile settings.String
	ca, cert, key                                    settings.String
}

// Add adds the settings. byURL are further settings that name a Redis by a URL.
func (s *Settings) Add(g settings.Group, set *settings.Set, byURL ...string) {
	s.add(g, "", "Redis", byURL)
	set.Renamed("sentinel-password", "redis-sentinel-password")
}

// AddFor adds the settings of a further Redis, which what names. Their names begin with before, such as "home-".
func (s *Settings) AddFor(g settings.Group, before, what string) { s.add(g, before, what, nil) }

func (s *Settings) add(g settings.Group, before, what string, byURL []string) {
	s.before = before
	redis := append([]string{s.name("redis")}, byURL...)
	needs := func(setting *settings.Setting) { setting.Needs(redis...) }
	g.URL(s.name("redis"), &s.URL, settings.Variable(s.name("redis-password"))+" or --"+s.name("redis-password-file"), "redis://host:6379/0, rediss:// for TLS, unix:///path; further nodes as ?addr=host:port")
	needs(g.Add(s.name("redis-cluster"), &s.cluster, "false", "the Redis is a Cluster"))
	needs(g.Add(s.name("redis-sentinel-master"), &s.master, "", "the addresses are those of Sentinels, which know the master of this name"))
	needs(g.Add(s.name("redis-user"), &s.user, "", "user name for "+what))
	needs(g.Secret(s.name("redis-password"), &s.password, "password for "+what))
	needs(g.Add(s.name("redis-password-file"), &s.passwordFile, "", "file with the password for "+what))
	sentinels := "Sentinels"
	if before != "" {
		sentinels += " of " + what
	}
	master := s.name("redis-sentinel-master")
	g.Add(s.name("redis-sentinel-user"), &s.sentinelUser, "", "user name for "+sentinels).Needs(master)
	g.Secret(s.name("redis-sentinel-password"), &s.sentinelPassword, "password for "+sentinels).Needs(master)
	g.Add(s.name("redis-sentinel-password-file"), &s.sentinelPassFile, "", "file with the password for "+sentinels).Needs(master)
	needs(g.Add(s.name("redis-cacert"), &s.ca, "", "PEM file of certificate authorities to trust instead of the system's"))
	needs(g.Add(s.name("redis-cert"), &s.cert, "", "PEM file with a client certificate"))
	needs(g.Add(s.name("redis-key"), &s.key, "", "PEM file with its key"))
	needs(g.Add(s.name("prefix"), &s.Prefix, redisstore.DefaultPrefix, "what keys in "+what+" begin with"))
}

// name returns the name of a setting, of its name for the first Redis.
func (s *Settings) name(of string) string { return s.before + of }

// Server returns the server that a URL names, by default that of the settings. flag is the setting of the URL. A
// file of a password that is named - is input, if that is not nil.
func (s *Settings) Server(flag, text string, input io.Reader) (Server, error) {
	u, err := settings.ReadURL(flag, text, "redis", "rediss", "unix")
	if err != nil {
		return Server{}, err
	}
	switch {
	case bool(s.cluster) && s.master != "":
		return Server{}, fmt.Errorf("--%s and --%s exclude each other", s.name("redis-cluster"), s.name("redis-sentinel-master"))
	case strings.Contains(string(s.Prefix), "{}"):
		return Server{}, fmt.Errorf("--%s: an empty hash tag would spread a client's keys over a Cluster", s.name("prefix"))
	}
	server := Server{URL: u, User: u.User.Username(), Cluster: bool(s.cluster), Master: string(s.master), SentinelUser: string(s.sentinelUser)}
	if s.user != "" {
		server.User = string(s.user)
	}
	inURL, _ := u.User.Password()
	if server.Password, err = settings.OnePassword(s.name("redis"), inURL, s.password, s.passwordFile, input); err != nil {
		return Server{}, err
	}
	if server.SentinelPassword, err = settings.OnePassword(s.name("redis-sentinel"), "", s.sentinelPassword, s.sentinelPassFile, input); err != nil {
		return Server{}, err
	}
	server.TLS, err = s.security(u)
	return server, err
}

// NoPassword is the error for a server with a user and no password.
func (s *Settings) NoPassword() error {
	return fmt.Errorf("--%s: there is a user and no password: set %s or --%s", s.name("redis-user"), settings.Variable(s.name("redis-password")), s.name("redis-password-file"))
}

// security returns how to trust a server.
func (s *Settings) security(u *url.URL) (*tls.Config, error) {
	if u.Scheme != "rediss" && (s.ca != "" || s.cert != "" || s.key != "") {
		return nil, fmt.Errorf("--%s and --%s are for rediss://", s.name("redis-cacert"), s.name("redis-cert"))
	}
	files := settings.TLS{CA: string(s.ca), Cert: string(s.cert), Key: string(s.key)}
	files.CAFlag, files.PairFlags = "--"+s.name("redis-cacert"), "--"+s.name("redis-cert")+" and --"+s.name("redis-key")
	return files.Config()
}
