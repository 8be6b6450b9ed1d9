package inspect

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/browser"
	"github.com/weblimit/weblimit/metrics/top"
)

// Config sets up a [Handler].
type Config struct {
	// Store is where the limits live, whichever way their limiters were made. The page shows
	// all limits that this process has on it. Required.
	Store core.Store

	// Top counts clients and rates. It must also be the core.Config.Observe of the limiters,
	// alone or among core.Observers. With an Exchange it shows all instances. Required.
	Top *top.Tracker

	// Authorize says who makes a request and what they may do. It is called for every request,
	// assets and streams included. An empty actor is answered with 401, None with 403. Which
	// actor it was is in the log of each action. Either Authorize or Users is required.
	//
	// It must not let somebody in for their network address alone, unless Hosts holds: a page of
	// somebody else can send requests from an operator's browser.
	Authorize func(r *http.Request) (actor string, may Permission)

	// Users are let in by HTTP Basic authentication, which browsers and curl ask for. Serve
	// them over TLS. Either Authorize or Users is required.
	Users []User

	// Hosts are the names in a browser's address bar under which the page is reached, without
	// port. Requests to others are answered with 421, so that a foreign name that resolves to
	// this server (DNS rebinding) shows nothing. Defaults to localhost and IP addresses.
	Hosts []string

	// Label returns a name for a key that the page shows beside it, such as the name of the
	// customer for a hashed API key; or "". It is called often and by several goroutines, so
	// it should read from memory. Defaults to none.
	Label func(key string) string

	// MaxBlock is the longest block that can be set, from 1s to 10 years. Defaults to 7 days.
	MaxBlock time.Duration

	// MaxStreams bounds how many pages are live by server-sent events. Further ones poll.
	// Defaults to 16.
	MaxStreams int

	// Timeout bounds each question to the store, from 10ms to 1m. Listing blocks may take five times
	// as long. Defaults to 2s.
	Timeout time.Duration

	// Logger gets a line for each action: who did what to which key, and the outcome. Defaults
	// to slog.Default().
	Logger *slog.Logger

	// LogKey returns what Logger sees of a key. Defaults to a hash. Hashes of IP addresses can be
	// reversed by trying all of them: return an HMAC if the log must not tell.
	LogKey func(key string) string
}

// Permission is what somebody may do. The zero Permission is [None].
type Permission uint8

// The permissions.
const (
	None Permission = iota // nothing: answered with 403
	Read                   // see everything
	Act                    // also reset, block and unblock
)

// User may use the page by name and password.
type User struct {
	Name     string
	Password string // at least 16 bytes: there is no other defence against guessing
	May      Permission
}

const (
	minPassword       = 16
	defaultMaxBlock   = 7 * 24 * time.Hour
	longestBlock      = 10 * 365 * 24 * time.Hour
	defaultMaxStreams = 16
	mostStreams       = 1024
	defaultTimeout    = 2 * time.Second
)

// validate checks the config and fills in its defaults.
func (c *Config) validate() error {
	switch {
	case c.Store == nil || isNil(c.Store):
		return errors.New("weblimit: inspect.Config.Store is missing")
	case c.Store.Registry() == nil:
		return errors.New("weblimit: inspect.Config.Store: its Registry is nil; a wrapper returns that of the store in it")
	case c.Top == nil:
		return errors.New("weblimit: inspect.Config.Top is missing: make one with top.New, and set it as core.Config.Observe, too")
	case c.Authorize == nil && len(c.Users) == 0:
		return errors.New("weblimit: inspect.Config needs Authorize or Users: nobody is let in by default")
	case c.Authorize != nil && len(c.Users) > 0:
		return errors.New("weblimit: inspect.Config has both Authorize and Users: set one")
	case c.MaxBlock != 0 && (c.MaxBlock < time.Second || c.MaxBlock > longestBlock):
		return fmt.Errorf("weblimit: inspect.Config.MaxBlock must be from 1s to 10 years, got %v", c.MaxBlock)
	case c.MaxStreams < 0 || c.MaxStreams > mostStreams:
		return fmt.Errorf("weblimit: inspect.Config.MaxStreams must be from 1 to %d, got %d", mostStreams, c.MaxStreams)
	case c.Timeout != 0 && (c.Timeout < 10*time.Millisecond || c.Timeout > time.Minute):
		return fmt.Errorf("weblimit: inspect.Config.Timeout must be from 10ms to 1m, got %v", c.Timeout)
	}
	for i, u := range c.Users {
		if err := u.validate(); err != nil {
			return fmt.Errorf("weblimit: inspect.Config.Users[%d]: %w", i, err)
		}
		if slices.ContainsFunc(c.Users[:i], func(other User) bool { return other.Name == u.Name }) {
			return fmt.Errorf("weblimit: inspect.Config.Users[%d]: there are two users %q", i, u.Name)
		}
	}
	c.Hosts = slices.Clone(c.Hosts)
	for i, host := range c.Hosts {
		var ok bool
		if c.Hosts[i], ok = browser.Host(host); !ok {
			return fmt.Errorf("weblimit: inspect.Config.Hosts[%d] must be a host name without scheme and port, such as limits.example.com, got %q", i, host)
		}
	}
	c.defaults()
	return nil
}

func (c *Config) defaults() {
	if c.MaxBlock == 0 {
		c.MaxBlock = defaultMaxBlock
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = defaultMaxStreams
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.LogKey == nil {
		c.LogKey = hashKey
	}
	if len(c.Users) > 0 {
		c.Authorize = basicAuth(c.Users)
	}
}

func (u User) validate() error {
	switch {
	case u.Name == "" || len(u.Name) > 64 || strings.Contains(u.Name, ":") || !isPrintable(u.Name):
		return fmt.Errorf("the name must have 1 to 64 printable bytes and no colon, got %q", u.Name)
	case len(u.Password) < minPassword:
		return fmt.Errorf("the password of %q must have at least %d bytes", u.Name, minPassword)
	case u.May != Read && u.May != Act:
		return fmt.Errorf("%q may do nothing: set May to inspect.Read or inspect.Act", u.Name)
	}
	return nil
}

// isNil reports whether a store is a nil pointer in an interface.
func isNil(s core.Store) bool {
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
