package main

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/weblimit/weblimit/internal/settings"
)

// inherited are variables of envoyproxy/ratelimit, which whoever changes over has set. None is read, and
// with --envoy-config none is passed over in silence. One that is set is an error that names what stands
// for it here, unless that is set as well, or the variable says what weblimitd does anyway. Without
// --envoy-config they are those of other programs: PORT, HOST, LOG_LEVEL and REDIS_URL are common names.
type inherited struct {
	names   string // with blanks between them
	instead string // the settings that stand for them, with blanks between them; one that is set is enough
	note    string // what else there is to know

	// with is a variable and its value without which the others mean nothing, such as USE_STATSD=true.
	// A value of "" is any.
	with string

	// agrees reports whether a value says what weblimitd does anyway. Nil stands for never.
	agrees func(o *options, value string) bool
}

// inheritedVariables are all variables of envoyproxy/ratelimit until July 2026. A test of internal/suites
// compares docs/service/envoy.md, which has them all, with the source.
var inheritedVariables = []inherited{
	{names: "HOST PORT", instead: "listen"},
	{names: "DEBUG_HOST DEBUG_PORT", instead: "admin-listen"},
	{names: "GRPC_HOST GRPC_PORT GRPC_UDS", instead: "grpc-listen"},
	{names: "GRPC_MAX_CONNECTION_AGE", instead: "grpc-max-age"},
	{names: "GRPC_MAX_CONNECTION_AGE_GRACE", note: "calls have 30 seconds", agrees: anyValue},
	{names: "GRPC_SERVER_USE_TLS", instead: "tls-cert", agrees: (*options).saysNo},
	{names: "GRPC_SERVER_TLS_CERT", instead: "tls-cert", with: "GRPC_SERVER_USE_TLS=true"},
	{names: "GRPC_SERVER_TLS_KEY", instead: "tls-key", with: "GRPC_SERVER_USE_TLS=true"},
	{names: "GRPC_CLIENT_TLS_CACERT", instead: "tls-client-ca", with: "GRPC_SERVER_USE_TLS=true"},
	{names: "GRPC_CLIENT_TLS_SAN", instead: "tls-client-names", with: "GRPC_SERVER_USE_TLS=true"},

	{names: "RUNTIME_ROOT RUNTIME_SUBDIRECTORY RUNTIME_APPDIRECTORY", instead: "envoy-config", note: "the folder $RUNTIME_ROOT/$RUNTIME_SUBDIRECTORY/$RUNTIME_APPDIRECTORY"},
	{names: "RUNTIME_IGNOREDOTFILES", note: "files whose names begin with a dot are never read", agrees: says("true")},
	{names: "RUNTIME_WATCH_ROOT", note: "files are followed behind links, and without", agrees: anyValue},
	{names: "MERGE_DOMAIN_CONFIG", instead: "envoy-merge-domains", agrees: sameBool(func(o *options) bool { return bool(o.envoyMergeDomains) })},
	{names: "FORCE_START_WITHOUT_INITIAL_CONFIG", note: "weblimitd starts with good files only", agrees: (*options).saysNo},
	{names: "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", note: "weblimitd starts with good files only", agrees: anyValue},
	{names: "CONFIG_TYPE", note: "limits come from files, Redis or PostgreSQL, and not by xDS", agrees: says("FILE")},
	{
		names: "CONFIG_GRPC_XDS_NODE_ID CONFIG_GRPC_XDS_NODE_METADATA CONFIG_GRPC_XDS_SERVER_URL CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL" +
			" CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS CONFIG_GRPC_XDS_SERVER_USE_TLS CONFIG_GRPC_XDS_CLIENT_TLS_CERT CONFIG_GRPC_XDS_CLIENT_TLS_KEY" +
			" CONFIG_GRPC_XDS_SERVER_TLS_CACERT CONFIG_GRPC_XDS_SERVER_TLS_SAN XDS_CLIENT_BACKOFF_INITIAL_INTERVAL XDS_CLIENT_BACKOFF_MAX_INTERVAL" +
			" XDS_CLIENT_BACKOFF_RANDOM_FACTOR XDS_CLIENT_BACKOFF_JITTER XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
		note: "there is no xDS", with: "CONFIG_TYPE=GRPC_XDS_SOTW",
	},

	{names: "SHADOW_MODE", instead: "envoy-shadow", agrees: sameBool(func(o *options) bool { return bool(o.envoyShadow) })},
	{names: "QUOTA_MODE", instead: "envoy-quota", agrees: sameBool(func(o *options) bool { return bool(o.envoyQuota) })},
	{names: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", instead: "envoy-overdraw", note: "`true` is always so, but under `--envoy-overdraw always`", agrees: func(o *options, value string) bool {
		is, err := strconv.ParseBool(value)
		return err == nil && is == (o.envoyOverdraw.Word != "always")
	}},
	{names: "RESPONSE_DYNAMIC_METADATA", instead: "envoy-dynamic-metadata", agrees: sameBool(func(o *options) bool { return bool(o.envoyMetas) })},
	{names: "NEAR_LIMIT_RATIO", instead: "envoy-near-limit", agrees: func(o *options, value string) bool {
		ratio, err := strconv.ParseFloat(value, 64)
		return err == nil && ratio == o.envoyNearLimit.N
	}},
	{names: "LIMIT_RESPONSE_HEADERS_ENABLED", instead: "envoy-limit-headers", agrees: sameBool(func(o *options) bool { return bool(o.envoyHeaders) })},
	{names: "LIMIT_LIMIT_HEADER", instead: "envoy-limit-header", with: "LIMIT_RESPONSE_HEADERS_ENABLED=true", agrees: says("RateLimit-Limit")},
	{names: "LIMIT_REMAINING_HEADER", instead: "envoy-remaining-header", with: "LIMIT_RESPONSE_HEADERS_ENABLED=true", agrees: says("RateLimit-Remaining")},
	{names: "LIMIT_RESET_HEADER", instead: "envoy-reset-header", with: "LIMIT_RESPONSE_HEADERS_ENABLED=true", agrees: says("RateLimit-Reset")},

	{names: "BACKEND_TYPE", instead: "redis postgres", note: "there is no memcached"},
	{
		names: "MEMCACHE_HOST_PORT MEMCACHE_MAX_IDLE_CONNS MEMCACHE_SRV MEMCACHE_SRV_REFRESH MEMCACHE_TLS MEMCACHE_TLS_CLIENT_CERT" +
			" MEMCACHE_TLS_CLIENT_KEY MEMCACHE_TLS_CACERT MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
		instead: "redis postgres", with: "BACKEND_TYPE=memcache",
	},
	{names: "REDIS_SOCKET_TYPE REDIS_URL", instead: "redis postgres"},
	{names: "REDIS_TYPE", instead: "redis-cluster redis-sentinel-master", agrees: says("SINGLE")},
	{names: "REDIS_AUTH", instead: "redis-password redis-password-file", agrees: func(o *options, _ string) bool {
		u, err := url.Parse(string(o.redis.URL))
		return err == nil && u.User != nil
	}},
	{names: "REDIS_SENTINEL_AUTH", instead: "redis-sentinel-password redis-sentinel-password-file"},
	{names: "REDIS_TLS", note: "`--redis rediss://…` is with TLS", agrees: func(o *options, value string) bool {
		is, err := strconv.ParseBool(value)
		return err == nil && (!is || strings.HasPrefix(string(o.redis.URL), "rediss:"))
	}},
	{names: "REDIS_TLS_CLIENT_CERT", instead: "redis-cert", with: "REDIS_TLS=true"},
	{names: "REDIS_TLS_CLIENT_KEY", instead: "redis-key", with: "REDIS_TLS=true"},
	{names: "REDIS_TLS_CACERT", instead: "redis-cacert", with: "REDIS_TLS=true"},
	{names: "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", instead: "redis-cacert", note: "names are always verified", with: "REDIS_TLS=true", agrees: (*options).saysNo},
	{names: "REDIS_POOL_SIZE", instead: "redis-pool-size"},
	{names: "REDIS_TIMEOUT", instead: "envoy-timeout"},
	{names: "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", instead: "ready-in-outage", agrees: sameBool(func(o *options) bool { return !bool(o.readyInOutage) })},
	{names: "CACHE_KEY_PREFIX", instead: "prefix"},
	{
		names: "REDIS_PIPELINE_WINDOW REDIS_PIPELINE_LIMIT REDIS_CLUSTER_PIPELINE_PARALLELISM REDIS_POOL_ON_EMPTY_BEHAVIOR" +
			" REDIS_STARTUP_INITIAL_INTERVAL REDIS_STARTUP_MAX_INTERVAL REDIS_STARTUP_MAX_ELAPSED_TIME",
		note: "not needed: calls wait for nothing, and weblimitd starts while Redis is away", agrees: anyValue,
	},
	{names: "REDIS_PERSECOND", note: "one Redis has all units", agrees: (*options).saysNo},
	{
		names: "REDIS_PERSECOND_SOCKET_TYPE REDIS_PERSECOND_TYPE REDIS_PERSECOND_URL REDIS_PERSECOND_POOL_SIZE REDIS_PERSECOND_AUTH" +
			" REDIS_PERSECOND_TLS REDIS_PERSECOND_SENTINEL_AUTH REDIS_PERSECOND_PIPELINE_WINDOW REDIS_PERSECOND_PIPELINE_LIMIT" +
			" REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM REDIS_PERSECOND_TIMEOUT REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR",
		note: "one Redis has all units", with: "REDIS_PERSECOND=true",
	},
	{names: "EXPIRATION_JITTER_MAX_SECONDS", note: "not needed: keys expire with their windows", agrees: anyValue},
	{names: "LOCAL_CACHE_SIZE_IN_BYTES", note: "clients over their limit are remembered by default", agrees: anyValue},

	{names: "LOG_LEVEL", instead: "log-level", agrees: func(o *options, value string) bool {
		return strings.EqualFold(value, o.logLevel.Word) || strings.EqualFold(value, "warning") && o.logLevel.Word == "warn"
	}},
	{names: "LOG_FORMAT", instead: "log-format", agrees: func(o *options, value string) bool { return strings.EqualFold(value, o.logFormat.Word) }},
	{names: "USE_STATSD USE_DOG_STATSD", note: "Prometheus scrapes `/metrics/envoy` on `--admin-listen`", agrees: (*options).saysNo},
	{
		names: "STATSD_HOST STATSD_PORT EXTRA_TAGS STATS_FLUSH_INTERVAL", note: "Prometheus scrapes `/metrics/envoy` on `--admin-listen`",
		agrees: func(o *options, _ string) bool { return o.saysNo(o.variables["USE_STATSD"]) }, // it is true by default
	},
	{names: "USE_DOG_STATSD_MOGRIFIERS", note: "Prometheus scrapes `/metrics/envoy` on `--admin-listen`", with: "USE_DOG_STATSD=true"},
	{names: "DISABLE_STATS USE_PROMETHEUS", note: "`/metrics/envoy` on `--admin-listen` is always there", agrees: anyValue},
	{names: "PROMETHEUS_ADDR", instead: "admin-listen", with: "USE_PROMETHEUS=true"},
	{names: "PROMETHEUS_PATH", note: "the path is `/metrics/envoy`", with: "USE_PROMETHEUS=true", agrees: says("/metrics/envoy")},
	{names: "PROMETHEUS_MAPPER_YAML", note: "names are those of the default mapping", with: "USE_PROMETHEUS=true"},
	{names: "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", note: "times are in seconds", with: "USE_PROMETHEUS=true", agrees: (*options).saysNo},
	{names: "TRACING_ENABLED", note: "traces are sent where `OTEL_EXPORTER_OTLP_ENDPOINT` says", agrees: func(o *options, value string) bool { return o.traced() || o.saysNo(value) }},
	{names: "TRACING_EXPORTER_PROTOCOL", note: "traces are sent over HTTP", with: "TRACING_ENABLED=true", agrees: says("http")},
	{names: "TRACING_SERVICE_NAME TRACING_SERVICE_NAMESPACE TRACING_SERVICE_INSTANCE_ID", note: "`OTEL_RESOURCE_ATTRIBUTES` has names", with: "TRACING_ENABLED=true", agrees: hasVariable("OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME")},
	{names: "TRACING_SAMPLING_RATE", note: "`OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` say which are sent", with: "TRACING_ENABLED=true", agrees: hasVariable("OTEL_TRACES_SAMPLER")},
}

// ofAService is a value that Kubernetes sets in each container for a Service, such as STATSD_PORT for one
// named statsd.
var ofAService = regexp.MustCompile(`^(tcp|udp|sctp)://`)

func anyValue(*options, string) bool { return true }

func says(word string) func(*options, string) bool {
	return func(_ *options, value string) bool {
		is, err := strconv.ParseBool(value)
		return strings.EqualFold(value, word) || err == nil && strconv.FormatBool(is) == word
	}
}

func sameBool(own func(*options) bool) func(*options, string) bool {
	return func(o *options, value string) bool {
		is, err := strconv.ParseBool(value)
		return err == nil && is == own(o)
	}
}

func hasVariable(names ...string) func(*options, string) bool {
	return func(o *options, _ string) bool {
		for _, name := range names {
			if o.variables[name] != "" {
				return true
			}
		}
		return false
	}
}

func (o *options) saysNo(value string) bool {
	is, err := strconv.ParseBool(value)
	return err == nil && !is
}

func (o *options) traced() bool {
	return tracesTo(func(name string) string { return o.variables[name] })
}

// refuseInherited returns an error for each variable of envoyproxy/ratelimit that says what is not done.
// Values are not repeated: some are passwords.
func (o *options) refuseInherited() error {
	var errs []error
	for i := range inheritedVariables {
		v := &inheritedVariables[i]
		for name := range strings.FieldsSeq(v.names) {
			if value := o.variables[name]; value != "" && !ofAService.MatchString(value) && o.counts(v) && !o.standsFor(v, name) && (v.agrees == nil || !v.agrees(o, value)) {
				errs = append(errs, fmt.Errorf("%s is a variable of envoyproxy/ratelimit, which is not read here: %s", name, v.mend(o.set)))
			}
		}
	}
	if len(errs) > 0 {
		errs = append(errs, errors.New("docs/service/envoy.md has all variables, under \"From variables to settings\""))
	}
	return errors.Join(errs...)
}

// counts reports whether a variable means something beside the others.
func (o *options) counts(v *inherited) bool {
	name, value, _ := strings.Cut(v.with, "=")
	return name == "" || says(value)(o, o.variables[name])
}

// standsFor reports whether a setting is set that stands for a variable. PostgreSQL stands for all of
// Redis.
func (o *options) standsFor(v *inherited, variable string) bool {
	if o.postgres.URL != "" && (strings.HasPrefix(variable, "REDIS_") || variable == "CACHE_KEY_PREFIX") {
		return true
	}
	for name := range strings.FieldsSeq(v.instead) {
		if o.set.From(name) != settings.Unset {
			return true
		}
	}
	return false
}

// mend says what to do about a variable.
func (v *inherited) mend(set *settings.Set) string {
	text := "unset it"
	if all := v.settings(set); len(all) > 0 {
		text = "set " + strings.Join(all, " or ") + ", or unset it"
	}
	if v.note != "" {
		text += "; " + strings.ReplaceAll(v.note, "`", "")
	}
	return text
}

// settings are those that stand for a variable, as flags, or as variables if they are secrets.
func (v *inherited) settings(set *settings.Set) (all []string) {
	for name := range strings.FieldsSeq(v.instead) {
		for _, s := range set.All() {
			if s.Name == name && s.EnvOnly {
				all = append(all, settings.Variable(name))
			} else if s.Name == name {
				all = append(all, "--"+name)
			}
		}
	}
	return all
}

// inheritedRows are the rows of docs/service/envoy.md.
func inheritedRows() string {
	var b strings.Builder
	set := newOptions().set
	for i := range inheritedVariables {
		v := &inheritedVariables[i]
		stands := v.settings(set)
		for j := range stands {
			stands[j] = "`" + stands[j] + "`"
		}
		text := strings.Join(stands, ", ")
		if v.note != "" {
			text = strings.TrimPrefix(text+"; "+v.note, "; ")
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.Join(strings.Fields(v.names), "`, `"), text)
	}
	return b.String()
}
