package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/settings"
)

// need says which settings do nothing without one of others. Both have blanks between them.
type need struct{ settings, of string }

// needs are all of them, but for those of Envoy and of TLS. A setting that does nothing is a mistake that shows in an
// incident only: with a password for a Redis that is not named, each instance counts in its own memory.
var needs = []need{
	{"redis-cluster redis-sentinel-master redis-user redis-password redis-password-file redis-sentinel-user redis-sentinel-password" +
		" redis-sentinel-password-file redis-cacert redis-cert redis-key redis-pool-size prefix", "redis"},
	{"redis-sentinel-user redis-sentinel-password redis-sentinel-password-file", "redis-sentinel-master"},
	{"postgres-schema", "postgres"},
	{"replicas", "redis postgres"},
	{"policy-keep gateway-trusted gateway-proxies reservation-secrets reservation-secrets-file", "policy"},
	{"gateway-trusted gateway-proxies reservation-secrets reservation-secrets-file", "listen"},
	{"admin-users admin-users-file admin-hosts admin-tls-cert admin-tls-key admin-tls-client-ca admin-tls-client-names pprof", "admin-listen"},
	{"log-secret", "log-denials"},
}

// validateNeeds returns an error for each setting that would do nothing.
func (o *options) validateNeeds() error {
	var errs []error
	for _, n := range needs {
		of := strings.Fields(n.of)
		if slices.ContainsFunc(of, o.isOn) {
			continue
		}
		for name := range strings.FieldsSeq(n.settings) {
			if s := o.set.Setting(name); s.Origin() != settings.Unset && o.isOn(name) && s.Text() != s.Default {
				errs = append(errs, fmt.Errorf("%s does nothing without --%s", o.nameOf(s), strings.Join(of, " or --")))
			}
		}
	}
	return errors.Join(errs...)
}

// isOn reports whether a setting says something, and that it is not off.
func (o *options) isOn(name string) bool {
	text := o.set.Setting(name).Text()
	return text != "" && text != "false" && text != "off"
}

// nameOf returns how the setting is written where it was found: as a flag, or as a variable.
func (o *options) nameOf(s *settings.Setting) string {
	if s.Origin() == settings.Environment {
		return o.set.Variable(s.Name)
	}
	return "--" + s.Name
}
