package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/internal/settings"
)

// options are the settings of the service. See docs/service/weblimitd.md. Those of a part stand in its file, with
// what they are checked for.
type options struct {
	set       *settings.Set
	variables map[string]string // of the environment
	entry     *entry            // nil unless the program was started under the name of envoyproxy/ratelimit
	tracing   tracing

	config settings.String
	policyOptions
	listenOptions
	storeOptions
	regionOptions
	callerOptions
	serviceOptions
	gatewayOptions
	envoyOptions
	operatorOptions
	bounds
	operation

	check bool
}

// newOptions returns the settings with their defaults, in the order of the help.
func newOptions() *options {
	o := &options{set: new(settings.Set)}
	policy := o.set.Group("Policy")
	policy.Add("config", &o.config, "", "settings file in YAML, with the names of these flags")
	o.policyOptions.add(policy)
	o.listenOptions.add(o.set.Group("Listeners: host:port, unix:/path, systemd:NAME or off"))
	o.storeOptions.add(o.set.Group("Store: memory unless one is named"), o.set)
	o.regionOptions.add(o.set.Group("Regions, around a home Redis"))
	callers := o.set.Group("Callers")
	o.callerOptions.add(callers)
	o.serviceOptions.add(callers)
	o.gatewayOptions.add(o.set.Group("Gateways"))
	o.envoyOptions.add(o.set.Group("Envoy, by the files of envoyproxy/ratelimit"))
	o.operatorOptions.add(o.set.Group("Operators"))
	o.bounds.add(o.set.Group("Bounds"))
	o.operation.add(o.set.Group("Operation"))
	return o
}

// ofTheCommand are variables of the command weblimit, which may be set beside. Those that both have mean the
// same.
var ofTheCommand = []string{
	"WEBLIMIT_URL", "WEBLIMIT_USER", "WEBLIMIT_PASSWORD", "WEBLIMIT_PASSWORD_FILE", "WEBLIMIT_CACERT",
	"WEBLIMIT_CERT", "WEBLIMIT_KEY", "WEBLIMIT_INSECURE_HTTP", "WEBLIMIT_TIMEOUT", "WEBLIMIT_JSON", "WEBLIMIT_SCHEMA",
	"WEBLIMIT_POLICY_TO", "WEBLIMIT_POLICY_NAME", "WEBLIMIT_BY",
}

// ofKubernetes are variables that Kubernetes sets in each container for a Service named weblimit, or
// weblimit-something.
var ofKubernetes = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|^WEBLIMIT_(.*_)?PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

func isForeign(variable string) bool {
	return slices.Contains(ofTheCommand, variable) || ofKubernetes.MatchString(variable)
}

// read reads all settings. Their flags have been parsed.
func (o *options) read(env []string) error {
	o.variables = make(map[string]string, len(env))
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		o.variables[name] = value
	}
	return o.readAll(env)
}
