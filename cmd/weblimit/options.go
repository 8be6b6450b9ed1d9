package main

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/weblimit/weblimit/internal/redisclient"
	"github.com/weblimit/weblimit/internal/settings"
)

// options are the settings of all commands: each is a flag, and where that is not set a variable. Those of Redis and
// PostgreSQL are the service's, too.
type options struct {
	set      settings.Set
	page     pageOptions
	redis    redisclient.Settings
	postgres settings.Postgres
	timeout  settings.Duration
	json     settings.Bool

	isRead bool
}

// The groups of settings. Those of PostgreSQL are flags of the commands that ask it.
const (
	ofPage     = "Page"
	ofRedis    = "Redis"
	ofPostgres = "PostgreSQL"
	ofAll      = "All"
)

// pageOptions are the settings of the page of an application.
type pageOptions struct {
	url                          settings.String
	user, password, passwordFile settings.String
	insecureHTTP                 settings.Bool
	caCert, cert, key            settings.String
}

func (p *pageOptions) add(g settings.Group) {
	g.URL("url", &p.url, "WEBLIMIT_PASSWORD or --password-file", "the application's page, https://host/ops/limits ($WEBLIMIT_URL)")
	g.Add("user", &p.user, "", "user name for the page ($WEBLIMIT_USER)")
	g.Secret("password", &p.password, "password for the page")
	g.Add("password-file", &p.passwordFile, "", "file with the password for the page, - for standard input ($WEBLIMIT_PASSWORD_FILE, or the password in $WEBLIMIT_PASSWORD)")
	g.Add("insecure-http", &p.insecureHTTP, "false", "send the password over http:// to a host that is not this one")
	g.Add("cacert", &p.caCert, "", "PEM file of certificate authorities to trust for the page instead of the system's ($WEBLIMIT_CACERT)")
	g.Add("cert", &p.cert, "", "PEM file with a client certificate for the page")
	g.Add("key", &p.key, "", "PEM file with the key of --cert")
}

// addSettings makes the settings, and adds the flags that all commands have.
func (a *app) addSettings(flags *pflag.FlagSet) {
	o := &a.options
	o.page.add(o.set.Group(ofPage))
	o.redis.Add(o.set.Group(ofRedis), &o.set)
	o.postgres.Add(o.set.Group(ofPostgres), "that the application's quota.Book is in")
	o.timeout = settings.Duration{Min: 100 * time.Millisecond, Max: time.Minute}
	o.set.Group(ofAll).Add("timeout", &o.timeout, "10s", "how long one question may take, from 100ms to 1m")
	o.set.Group(ofAll).Add("json", &o.json, "false", "print JSON, with keys exactly as they are")
	for former, name := range map[string]string{
		"cluster": "redis-cluster", "sentinel-master": "redis-sentinel-master",
		"database-url": "postgres", "database-password-file": "postgres-password-file",
	} {
		o.set.Renamed(former, name)
	}
	a.addFlags(flags, ofPage, ofRedis, ofAll)
}

// addFlags adds the flags of groups. Those of secrets are there to be refused.
func (a *app) addFlags(flags *pflag.FlagSet, groups ...string) {
	flags.AddGoFlagSet(a.set.Flags(groups...))
	flags.VisitAll(func(f *pflag.Flag) {
		if s := a.set.ByName(f.Name); s != nil {
			f.Hidden = s.EnvOnly
		}
	})
}

// flagError says what is wrong with flags, some of which have had other names.
func (a *app) flagError(c *cobra.Command, err error) error {
	if of := (*pflag.ValueRequiredError)(nil); errors.As(err, &of) {
		return err
	}
	return a.set.FlagError(err)
}

// read reads the settings, once: completion asks before a command runs.
func (a *app) read() error {
	if a.isRead {
		return nil
	}
	a.isRead = true
	if err := a.set.Read(a.env, nil); err != nil {
		return usageError{err}
	}
	return nil
}

// target is where to ask: a page, or Redis.
type target struct {
	page           *url.URL // nil for Redis
	user, password string   // for the page
	redis          redisclient.Server
}

// target returns where flags and environment say to ask. A flag wins.
func (a *app) target() (*target, error) {
	if err := a.read(); err != nil {
		return nil, err
	}
	page, rdb := a.page.url, a.redis.URL
	byFlag := func(name string) bool { return a.set.From(name) == settings.Flag }
	switch {
	case page == "" && rdb == "":
		return nil, usagef("nobody to ask: set --url (WEBLIMIT_URL) to the application's page, or --redis (WEBLIMIT_REDIS)")
	case page != "" && rdb != "" && byFlag("url") && byFlag("redis"):
		return nil, usagef("--url and --redis exclude each other")
	case page != "" && rdb != "" && byFlag("url") == byFlag("redis"):
		return nil, usagef("both WEBLIMIT_URL and WEBLIMIT_REDIS are set: choose with --url or --redis")
	case page != "" && (rdb == "" || byFlag("url")):
		return a.pageTarget()
	}
	server, err := a.redisServer("--redis", string(rdb))
	return &target{redis: server}, err
}

// pageTarget returns the page to ask.
func (a *app) pageTarget() (*target, error) {
	if err := a.noFlags(ofRedis, "Redis, and a page is asked"); err != nil {
		return nil, err
	}
	u, err := settings.ReadURL("--url", string(a.page.url), "http", "https")
	if err != nil {
		return nil, usageError{err}
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, usagef("--url must be that of the page, without ? and #")
	}
	t := &target{page: u}
	return t, a.credentials(t)
}

// noFlags refuses flags that would do nothing. Variables may be set for other commands.
func (a *app) noFlags(group, of string) error {
	for _, s := range a.set.All() {
		if s.Group == group && s.Origin() == settings.Flag {
			return usagef("--%s is for %s", s.Name, of)
		}
	}
	return nil
}

// credentials finds the user and the password of a page, and takes both out of the URL. A flag wins over the URL, which wins
// over a variable; of the variables the password itself wins over that of its file. Last, a terminal is asked.
func (a *app) credentials(t *target) (err error) {
	t.user = t.page.User.Username()
	t.password, _ = t.page.User.Password()
	t.page.User = nil
	if t.user == "" || a.set.From("user") == settings.Flag && a.page.user != "" {
		t.user = string(a.page.user)
	}
	fileByFlag := a.set.From("password-file") == settings.Flag
	switch {
	case !fileByFlag && t.password == "" && a.page.password != "":
		t.password = string(a.page.password)
	case a.page.passwordFile != "" && (t.password == "" || fileByFlag):
		if t.password, err = settings.ReadPassword(string(a.page.passwordFile), a.input); err != nil {
			return err
		}
	case t.user != "" && t.password == "":
		if t.password, err = a.askPassword(); err != nil {
			return err
		}
	}
	switch {
	case t.user != "" && t.password == "":
		return usagef("there is a user and no password: set WEBLIMIT_PASSWORD or --password-file")
	case t.password == "":
		return nil
	case t.user == "":
		return usagef("there is a password and no user: set --user (WEBLIMIT_USER)")
	case t.page.Scheme == "http" && !isLoopback(t.page.Hostname()) && !bool(a.page.insecureHTTP):
		return usagef("http:// would send the password where others can read it: use https://, or --insecure-http if nobody can listen")
	}
	return nil
}

// askPassword asks whoever sits at a terminal; elsewhere it returns "".
func (a *app) askPassword() (string, error) {
	if a.in == nil || !term.IsTerminal(int(a.in.Fd())) {
		return "", nil
	}
	_, _ = fmt.Fprint(a.err, "Password: ")
	text, err := term.ReadPassword(int(a.in.Fd()))
	_, _ = fmt.Fprintln(a.err)
	if err != nil {
		return "", fmt.Errorf("the password can't be read: %w", err)
	}
	return string(text), nil
}
