package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/weblimit/weblimit/core/redisstore"
)

// options are the flags of all commands. Where a flag is not set, its environment variable counts.
type options struct {
	url          string
	user         string
	passwordFile string
	insecureHTTP bool

	redis    string
	cluster  bool
	sentinel string
	prefix   string

	caCert, cert, key string

	timeout time.Duration
	json    bool
}

func (a *app) addFlags(flags *pflag.FlagSet) {
	o := &a.options
	flags.StringVar(&o.url, "url", "", "the application's page, https://host/ops/limits ($WEBLIMIT_URL)")
	flags.StringVar(&o.redis, "redis", "", "straight on this Redis instead: redis://host:6379/0, rediss:// for TLS, unix:///path ($WEBLIMIT_REDIS)")
	flags.BoolVar(&o.cluster, "cluster", false, "the Redis is a Cluster; further nodes as ?addr=host:port")
	flags.StringVar(&o.sentinel, "sentinel-master", "", "the address is that of a Sentinel, which knows the master of this name; further Sentinels as ?addr=host:port")
	flags.StringVar(&o.prefix, "prefix", "", "redisstore.Config.Prefix of the application ($WEBLIMIT_PREFIX, "+redisstore.DefaultPrefix+")")
	flags.StringVar(&o.user, "user", "", "user name for the page or for Redis ($WEBLIMIT_USER)")
	flags.StringVar(&o.passwordFile, "password-file", "", "file with the password, - for standard input ($WEBLIMIT_PASSWORD_FILE, or the password in $WEBLIMIT_PASSWORD)")
	flags.BoolVar(&o.insecureHTTP, "insecure-http", false, "send the password over http:// to a host that is not this one")
	flags.StringVar(&o.caCert, "cacert", "", "PEM file of certificate authorities to trust instead of the system's ($WEBLIMIT_CACERT)")
	flags.StringVar(&o.cert, "cert", "", "PEM file with a client certificate")
	flags.StringVar(&o.key, "key", "", "PEM file with the key of --cert")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long one question may take, from 100ms to 1m")
	flags.BoolVar(&o.json, "json", false, "print JSON, with keys exactly as they are")
}

// target is where to ask.
type target struct {
	page     *url.URL // nil for Redis
	redis    *url.URL
	user     string
	password string
}

// target reads flags and environment. A password is never taken from a flag: everybody on the machine
// can read those.
func (a *app) target() (*target, error) {
	o := &a.options
	page, rdb := o.url, o.redis
	if page == "" && rdb == "" {
		page, rdb = a.env("WEBLIMIT_URL"), a.env("WEBLIMIT_REDIS")
		if page != "" && rdb != "" {
			return nil, usagef("both WEBLIMIT_URL and WEBLIMIT_REDIS are set: choose with --url or --redis")
		}
	}
	if o.timeout < minTimeout || o.timeout > maxTimeout {
		return nil, errTimeout(o.timeout)
	}
	var t target
	var err error
	switch {
	case page != "" && rdb != "":
		return nil, usagef("--url and --redis exclude each other")
	case page != "":
		t.page, err = readURL("--url", page, o.url != "", "http", "https")
		if err == nil && (t.page.RawQuery != "" || t.page.Fragment != "") {
			err = usagef("--url must be that of the page, without ? and #")
		}
	case rdb != "":
		t.redis, err = readURL("--redis", rdb, o.redis != "", "redis", "rediss", "unix")
	default:
		return nil, usagef("nobody to ask: set --url (WEBLIMIT_URL) to the application's page, or --redis (WEBLIMIT_REDIS)")
	}
	if err != nil {
		return nil, err
	}
	return &t, a.credentials(&t)
}

// The bounds of --timeout.
const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = time.Minute
)

func errTimeout(d time.Duration) error {
	return usagef("--timeout must be from %v to %v, got %v", minTimeout, lasting(maxTimeout), d)
}

func errPasswordShown(flag, instead string) error {
	return usagef("%s has a password, which everybody on this machine can see in the list of processes: set %s", flag, instead)
}

// readURL reads a URL. Its errors don't repeat it: it may hold a password.
func readURL(flag, text string, byFlag bool, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, usagef("%s is no URL: %w", flag, err)
	}
	known := false
	for _, s := range schemes {
		known = known || u.Scheme == s
	}
	if !known || u.Host == "" && u.Scheme != "unix" && !strings.HasPrefix(u.Scheme, "postgres") || u.Opaque != "" {
		return nil, usagef("%s must begin with %s", flag, strings.Join(schemes, ":// or ")+"://")
	}
	if _, has := u.User.Password(); has && byFlag {
		return nil, errPasswordShown(flag, passwordInstead(flag, u.Scheme))
	}
	return u, nil
}

// passwordInstead says where the password of a URL belongs.
func passwordInstead(flag, scheme string) string {
	switch {
	case flag == "--database-url":
		return "PGPASSWORD, PGPASSFILE or --database-password-file"
	case strings.HasPrefix(scheme, "postgres"):
		return "PGPASSWORD, PGPASSFILE or --password-file"
	}
	return "WEBLIMIT_PASSWORD or --password-file"
}

// credentials finds the user and the password, and takes both out of the URLs.
func (a *app) credentials(t *target) error {
	u := cmp.Or(t.page, t.redis)
	t.user = cmp.Or(a.user, u.User.Username(), a.env("WEBLIMIT_USER"))
	t.password, _ = u.User.Password()
	u.User = nil
	file := cmp.Or(a.passwordFile, a.env("WEBLIMIT_PASSWORD_FILE"))
	switch {
	case a.passwordFile == "" && t.password == "" && a.env("WEBLIMIT_PASSWORD") != "":
		t.password = a.env("WEBLIMIT_PASSWORD")
	case file != "" && (t.password == "" || a.passwordFile != ""):
		var err error
		if t.password, err = a.readPassword(file); err != nil {
			return err
		}
	case t.user != "" && t.password == "" && a.in != nil && term.IsTerminal(int(a.in.Fd())):
		_, _ = fmt.Fprint(a.err, "Password: ")
		text, err := term.ReadPassword(int(a.in.Fd()))
		_, _ = fmt.Fprintln(a.err)
		if err != nil {
			return fmt.Errorf("the password can't be read: %w", err)
		}
		t.password = string(text)
	}
	if t.user != "" && t.password == "" {
		return usagef("there is a user and no password: set WEBLIMIT_PASSWORD or --password-file")
	}
	if t.page == nil || t.password == "" {
		return nil
	}
	if t.user == "" {
		return usagef("there is a password and no user: set --user (WEBLIMIT_USER)")
	}
	if t.page.Scheme == "http" && !isLoopback(t.page.Hostname()) && !a.insecureHTTP {
		return usagef("http:// would send the password where others can read it: use https://, or --insecure-http if nobody can listen")
	}
	return nil
}

// maxPassword bounds a file with a password.
const maxPassword = 4096

func (a *app) readPassword(file string) (string, error) {
	from := a.input
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // the operator names it
		if err != nil {
			return "", fmt.Errorf("the password can't be read: %w", err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxPassword+1))
	if err != nil {
		return "", fmt.Errorf("the password can't be read: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" || len(text) > maxPassword || strings.ContainsAny(password, "\r\n") {
		return "", errors.New("the file of the password must hold one line, the password")
	}
	return password, nil
}
