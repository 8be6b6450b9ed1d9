package settings

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ReadURL reads the URL of a flag or setting. Its errors don't repeat it: it may hold a password.
func ReadURL(flag, text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		// The parser's error could repeat a part of a password.
		return nil, fmt.Errorf("%s is no URL; letters such as / and @ in a password must be escaped: %%2F, %%40", flag)
	}
	known := false
	for _, s := range schemes {
		known = known || u.Scheme == s
	}
	if !known || u.Opaque != "" || u.Scheme == "unix" && u.Path == "" || u.Scheme != "unix" && !strings.HasPrefix(u.Scheme, "postgres") && u.Host == "" {
		return nil, fmt.Errorf("%s must begin with %s", flag, strings.Join(schemes, ":// or ")+"://")
	}
	return u, nil
}

// RefusePassword returns an error if the URL of a flag has a password.
func RefusePassword(flag, text, instead string) error {
	if why := refusePassword(text, instead); why != "" {
		return errors.New(flag + " " + why)
	}
	return nil
}

// refusePassword keeps passwords out of flags, which everybody on the machine can read.
func refusePassword(text, instead string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "" // said elsewhere
	}
	if _, has := u.User.Password(); has || strings.Contains(strings.ToLower(u.RawQuery), "pass") {
		return "has a password, which everybody on this machine can see in the list of processes: set " + instead
	}
	return ""
}

// redactURL returns a URL without its password.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(no URL)"
	}
	if u.RawQuery != "" { // PostgreSQL takes a password there
		query := u.Query()
		for name := range query {
			if strings.Contains(strings.ToLower(name), "pass") {
				query.Set(name, "xxxxx")
			}
		}
		u.RawQuery = query.Encode()
	}
	return u.Redacted()
}
