package main

import (
	"net/url"
	"strconv"
	"strings"
)

// notNeeded is in docs for variables that say nothing which is not so anyway.
const notNeeded = "not needed"

// byXDS and byXDSWithTLS are the variables without which those of a control plane mean nothing.
const (
	byXDS        = "CONFIG_TYPE=GRPC_XDS_SOTW"
	byXDSWithTLS = byXDS + " CONFIG_GRPC_XDS_SERVER_USE_TLS=true"
)

// inheritedVariables are all variables of envoyproxy/ratelimit until July 2026, in one place for both names of the program. A
// test of internal/suites compares docs/service/envoy.md, which has them all, with the source.
var inheritedVariables = []inherited{
	{names: "HOST PORT", instead: "listen", becomes: asAddress("HOST", "PORT", "8080"), as: "`--listen`, `0.0.0.0:8080` by default"},
	{names: "DEBUG_HOST DEBUG_PORT", instead: "admin-listen", becomes: asAddress("DEBUG_HOST", "DEBUG_PORT", "6070"), as: "`--admin-listen`, `0.0.0.0:6070` by default"},
	{names: "GRPC_HOST GRPC_PORT GRPC_UDS", instead: "grpc-listen", becomes: asGRPC, as: "`--grpc-listen`, `0.0.0.0:8081` by default"},
	{names: "GRPC_MAX_CONNECTION_AGE", instead: "grpc-max-age", becomes: asText},
	{names: "GRPC_MAX_CONNECTION_AGE_GRACE", note: "calls have 30 seconds", agrees: anyValue, as: notNeeded},
	{names: "GRPC_SERVER_USE_TLS", instead: "tls-cert", agrees: (*options).saysNo, unless: "tls-cert", becomes: asTLS, as: "`--tls-grpc-only`"},
	{names: "GRPC_SERVER_TLS_CERT", instead: "tls-cert", with: "GRPC_SERVER_USE_TLS=true", becomes: asText},
	{names: "GRPC_SERVER_TLS_KEY", instead: "tls-key", with: "GRPC_SERVER_USE_TLS=true", becomes: asText},
	{names: "GRPC_CLIENT_TLS_CACERT", instead: "tls-client-ca", with: "GRPC_SERVER_USE_TLS=true", becomes: asText},
	{names: "GRPC_CLIENT_TLS_SAN", instead: "tls-client-names", with: "GRPC_SERVER_USE_TLS=true", becomes: asText},
	{
		names: "GRPC_SERVER_TLS_CA_CERT", instead: "tls-client-ca", note: "of Envoy Gateway alone, whose Envoys have certificates; envoyproxy/ratelimit does not read it",
		with: "GRPC_SERVER_USE_TLS=true", agrees: anyValue, becomes: asText, as: "`--tls-client-ca`",
	},

	{names: "RUNTIME_ROOT RUNTIME_SUBDIRECTORY RUNTIME_APPDIRECTORY", instead: "envoy-config", note: "the folder $RUNTIME_ROOT/$RUNTIME_SUBDIRECTORY/$RUNTIME_APPDIRECTORY", unless: "envoy-config", becomes: asFolder, as: "`--envoy-config`, `/srv/runtime_data/current/config` by default"},
	{names: "RUNTIME_IGNOREDOTFILES", note: "files whose names begin with a dot are never read", agrees: says("true")},
	{names: "RUNTIME_WATCH_ROOT", note: "files are followed behind links, and without", agrees: anyValue, as: notNeeded},
	{names: "MERGE_DOMAIN_CONFIG", instead: "envoy-merge-domains", agrees: sameBool(func(o *options) bool { return bool(o.envoyMergeDomains) }), becomes: asBool},
	{names: "FORCE_START_WITHOUT_INITIAL_CONFIG", instead: "envoy-start-without-config", agrees: sameBool(func(o *options) bool { return bool(o.envoyStartWithout) }), becomes: asBool},
	{names: "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", instead: "envoy-unhealthy-without-config", becomes: asBool, agrees: func(o *options, value string) bool {
		_, byXDS := o.fromXDS()
		return o.saysNo(value) || !byXDS && !bool(o.envoyStartWithout) // there are good files from the start
	}},
	{
		names: "CONFIG_TYPE", note: "`--envoy-config xds:HOST:PORT` for `GRPC_XDS_SOTW`, and a folder for `FILE`", unless: "envoy-config", becomes: asConfigType, as: "`--envoy-config`",
		agrees: func(o *options, value string) bool {
			if _, byXDS := o.fromXDS(); byXDS {
				return strings.EqualFold(value, "GRPC_XDS_SOTW")
			}
			return strings.EqualFold(value, "FILE")
		},
	},
	{names: "CONFIG_GRPC_XDS_SERVER_URL", instead: "envoy-config", note: "`xds:` and the address", with: byXDS, unless: "envoy-config", becomes: asSaid, as: "`--envoy-config`, `xds:localhost:18000` by default"},
	{names: "CONFIG_GRPC_XDS_NODE_ID", instead: "envoy-xds-node-id", with: byXDS, unless: "envoy-config", becomes: asNode, as: "`--envoy-xds-node-id`, `default` by default", agrees: func(o *options, value string) bool { return value == string(o.xds.node) }},
	{names: "CONFIG_GRPC_XDS_NODE_METADATA", instead: "envoy-xds-node-metadata", with: byXDS, unless: "envoy-config", becomes: asText},
	{names: "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", instead: "envoy-xds-headers envoy-xds-headers-file", with: byXDS, unless: "envoy-config", becomes: asText, as: "`WEBLIMIT_ENVOY_XDS_HEADERS`"},
	{names: "CONFIG_GRPC_XDS_SERVER_USE_TLS", instead: "envoy-xds-tls", with: byXDS, unless: "envoy-config", becomes: asBool, agrees: sameBool(func(o *options) bool { return bool(o.xds.tls) })},
	{names: "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", instead: "envoy-xds-cert", with: byXDSWithTLS, unless: "envoy-config", becomes: asText},
	{names: "CONFIG_GRPC_XDS_CLIENT_TLS_KEY", instead: "envoy-xds-key", with: byXDSWithTLS, unless: "envoy-config", becomes: asText},
	{names: "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", instead: "envoy-xds-cacert", with: byXDSWithTLS, unless: "envoy-config", becomes: asText},
	{names: "CONFIG_GRPC_XDS_SERVER_TLS_SAN", instead: "envoy-xds-server-name", with: byXDSWithTLS, unless: "envoy-config", becomes: asText},
	{names: "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", instead: "envoy-xds-retry", with: byXDS, unless: "envoy-config", becomes: asText},
	{names: "XDS_CLIENT_BACKOFF_MAX_INTERVAL", instead: "envoy-xds-max-retry", with: byXDS, unless: "envoy-config", becomes: asMaxRetry},
	{names: "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL XDS_CLIENT_BACKOFF_RANDOM_FACTOR", note: "pauses are those of `--envoy-xds-retry`, and double", with: byXDS, agrees: anyValue, as: notNeeded},
	{names: "XDS_CLIENT_BACKOFF_JITTER", note: "pauses are shortened at random", with: byXDS, agrees: says("true")},
	{names: "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", instead: "envoy-xds-max-message", with: byXDS, unless: "envoy-config", becomes: asMaxMessage},

	{names: "SHADOW_MODE", instead: "envoy-shadow", agrees: sameBool(func(o *options) bool { return bool(o.envoyShadow) }), becomes: asBool},
	{names: "QUOTA_MODE", instead: "envoy-quota", agrees: sameBool(func(o *options) bool { return bool(o.envoyQuota) }), becomes: asBool},
	{names: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", instead: "envoy-overdraw", note: "`true` is always so, but under `--envoy-overdraw always`", becomes: asOverdraw, as: "`--envoy-overdraw always` for `false`", agrees: func(o *options, value string) bool {
		is, err := strconv.ParseBool(value)
		return err == nil && is == (o.envoyOverdraw.Word != "always")
	}},
	{names: "RESPONSE_DYNAMIC_METADATA", instead: "envoy-dynamic-metadata", agrees: sameBool(func(o *options) bool { return bool(o.envoyMetas) }), becomes: asBool},
	{names: "NEAR_LIMIT_RATIO", instead: "envoy-near-limit", becomes: asText, agrees: func(o *options, value string) bool {
		ratio, err := strconv.ParseFloat(value, 64)
		return err == nil && ratio == o.envoyNearLimit.N
	}},
	{names: "LIMIT_RESPONSE_HEADERS_ENABLED", instead: "envoy-limit-headers", agrees: sameBool(func(o *options) bool { return bool(o.envoyHeaders) }), becomes: asBool},
	{names: "LIMIT_LIMIT_HEADER", instead: "envoy-limit-header", with: "LIMIT_RESPONSE_HEADERS_ENABLED=true", agrees: says("RateLimit-Limit"), becomes: asText},
	{names: "LIMIT_REMAINING_HEADER", instead: "envoy-remaining-header", with: "LIMIT_RESPONSE_HEADERS_ENABLED=true", agrees: says("RateLimit-Remaining"), becomes: asText},
	{names: "LIMIT_RESET_HEADER", instead: "envoy-reset-header", with: "LIMIT_RESPONSE_HEADERS_ENABLED=true", agrees: says("RateLimit-Reset"), becomes: asText},

	{names: "BACKEND_TYPE", instead: "redis postgres", note: "there is no memcached", unless: "redis postgres", becomes: asBackend, as: "`redis`; there is no memcached"},
	{
		names: "MEMCACHE_HOST_PORT MEMCACHE_MAX_IDLE_CONNS MEMCACHE_SRV MEMCACHE_SRV_REFRESH MEMCACHE_TLS MEMCACHE_TLS_CLIENT_CERT" +
			" MEMCACHE_TLS_CLIENT_KEY MEMCACHE_TLS_CACERT MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION",
		instead: "redis postgres", with: "BACKEND_TYPE=memcache", unless: "redis postgres",
	},
	{names: "REDIS_SOCKET_TYPE REDIS_URL", instead: "redis postgres", unless: "redis postgres", becomes: asRedis, as: "`--redis`; of Sentinels, `--redis-sentinel-master`, too"},
	{names: "REDIS_TYPE", instead: "redis-cluster redis-sentinel-master", agrees: says("SINGLE"), unless: "redis postgres", becomes: asRedisType},
	{names: "REDIS_AUTH", instead: "redis-password redis-password-file", unless: "redis postgres", becomes: asPassword("redis-user", "redis-password"), as: "`--redis-user`, `WEBLIMIT_REDIS_PASSWORD`", agrees: func(o *options, _ string) bool {
		u, err := url.Parse(string(o.redis.URL))
		return err == nil && u.User != nil
	}},
	{names: "REDIS_SENTINEL_AUTH", instead: "redis-sentinel-password redis-sentinel-password-file", unless: "redis postgres", becomes: asPassword("redis-sentinel-user", "redis-sentinel-password"), as: "`--redis-sentinel-user`, `WEBLIMIT_REDIS_SENTINEL_PASSWORD`"},
	{names: "REDIS_TLS", note: "`--redis rediss://…` is with TLS", unless: "redis postgres", becomes: asRedisTLS, as: "`--redis rediss://…`", agrees: func(o *options, value string) bool {
		is, err := strconv.ParseBool(value)
		return err == nil && (!is || strings.HasPrefix(string(o.redis.URL), "rediss:"))
	}},
	{names: "REDIS_TLS_CLIENT_CERT", instead: "redis-cert", with: "REDIS_TLS=true", unless: "redis postgres", becomes: asText},
	{names: "REDIS_TLS_CLIENT_KEY", instead: "redis-key", with: "REDIS_TLS=true", unless: "redis postgres", becomes: asText},
	{names: "REDIS_TLS_CACERT", instead: "redis-cacert", with: "REDIS_TLS=true", unless: "redis postgres", becomes: asText},
	{names: "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", instead: "redis-cacert", note: "names are always verified", with: "REDIS_TLS=true", unless: "redis postgres", agrees: (*options).saysNo},
	{names: "REDIS_POOL_SIZE", instead: "redis-pool-size", unless: "postgres", becomes: asText},
	{names: "REDIS_TIMEOUT", instead: "envoy-timeout", becomes: asText},
	{names: "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", instead: "ready-in-outage", agrees: sameBool(func(o *options) bool { return !bool(o.readyInOutage) }), becomes: asReadiness, as: "`--ready-in-outage`, the other way round"},
	{names: "CACHE_KEY_PREFIX", instead: "prefix", unless: "postgres", becomes: asText},
	{
		names: "REDIS_PIPELINE_WINDOW REDIS_PIPELINE_LIMIT REDIS_CLUSTER_PIPELINE_PARALLELISM REDIS_POOL_ON_EMPTY_BEHAVIOR" +
			" REDIS_STARTUP_INITIAL_INTERVAL REDIS_STARTUP_MAX_INTERVAL REDIS_STARTUP_MAX_ELAPSED_TIME",
		note: "not needed: calls wait for nothing, and weblimitd starts while Redis is away", agrees: anyValue, as: notNeeded,
	},
	{names: "REDIS_PERSECOND", note: "one Redis has all units", agrees: (*options).saysNo},
	{
		names: "REDIS_PERSECOND_SOCKET_TYPE REDIS_PERSECOND_TYPE REDIS_PERSECOND_URL REDIS_PERSECOND_POOL_SIZE REDIS_PERSECOND_AUTH" +
			" REDIS_PERSECOND_TLS REDIS_PERSECOND_SENTINEL_AUTH REDIS_PERSECOND_PIPELINE_WINDOW REDIS_PERSECOND_PIPELINE_LIMIT" +
			" REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM REDIS_PERSECOND_TIMEOUT REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR",
		note: "one Redis has all units", with: "REDIS_PERSECOND=true",
	},
	{names: "EXPIRATION_JITTER_MAX_SECONDS", note: "not needed: keys expire with their windows", agrees: anyValue, as: notNeeded},
	{names: "LOCAL_CACHE_SIZE_IN_BYTES", note: "clients over their limit are remembered by default", agrees: anyValue, as: notNeeded},

	{names: "LOG_LEVEL", instead: "log-level", becomes: asLevel, agrees: func(o *options, value string) bool {
		return strings.EqualFold(value, o.logLevel.Word) || strings.EqualFold(value, "warning") && o.logLevel.Word == "warn"
	}},
	{names: "LOG_FORMAT", instead: "log-format", becomes: asFormat, agrees: func(o *options, value string) bool { return strings.EqualFold(value, o.logFormat.Word) }},
	{names: "USE_STATSD USE_DOG_STATSD", note: "Prometheus scrapes `/metrics/envoy` on `--admin-listen`", agrees: (*options).saysNo},
	{
		names: "STATSD_HOST STATSD_PORT EXTRA_TAGS STATS_FLUSH_INTERVAL", note: "Prometheus scrapes `/metrics/envoy` on `--admin-listen`",
		agrees: func(o *options, _ string) bool { return o.saysNo(o.variables["USE_STATSD"]) }, // it is true by default
	},
	{names: "USE_DOG_STATSD_MOGRIFIERS", note: "Prometheus scrapes `/metrics/envoy` on `--admin-listen`", with: "USE_DOG_STATSD=true"},
	{names: "DISABLE_STATS", note: "`/metrics/envoy` on `--admin-listen` is always there", agrees: anyValue, as: notNeeded},
	{names: "USE_PROMETHEUS", note: "`/metrics/envoy` on `--admin-listen` is always there", agrees: anyValue, becomes: asScraped, as: "`--metrics-listen`, `:9090` by default"},
	{names: "PROMETHEUS_ADDR", instead: "metrics-listen admin-listen", with: "USE_PROMETHEUS=true", becomes: asSaid, as: "`--metrics-listen`"},
	{names: "PROMETHEUS_PATH", instead: "metrics-path", note: "without `--metrics-listen` the path is `/metrics/envoy`", with: "USE_PROMETHEUS=true", agrees: says("/metrics/envoy"), becomes: asSaid, as: "`--metrics-path`"},
	{names: "PROMETHEUS_MAPPER_YAML", note: "names are those of the default mapping", with: "USE_PROMETHEUS=true", becomes: asMapping, as: "not read"},
	{names: "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", note: "times are in seconds", with: "USE_PROMETHEUS=true", agrees: (*options).saysNo},
	{names: "TRACING_ENABLED", note: "traces are sent where `OTEL_EXPORTER_OTLP_ENDPOINT` says", agrees: func(o *options, value string) bool { return o.traced() || o.saysNo(value) }, becomes: asTraces, as: "traces are sent if it is `true`"},
	{names: "TRACING_EXPORTER_PROTOCOL", note: "traces are sent over HTTP", with: "TRACING_ENABLED=true", agrees: says("http")},
	{names: "TRACING_SERVICE_NAME TRACING_SERVICE_NAMESPACE TRACING_SERVICE_INSTANCE_ID", note: "`OTEL_RESOURCE_ATTRIBUTES` has names", with: "TRACING_ENABLED=true", agrees: hasVariable("OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME"), becomes: asNames, as: "names in traces; those of OpenTelemetry win"},
	{names: "TRACING_SAMPLING_RATE", note: "`OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` say which are sent", with: "TRACING_ENABLED=true", agrees: hasVariable("OTEL_TRACES_SAMPLER"), becomes: asSampler, as: "as there; `OTEL_TRACES_SAMPLER` wins"},
}
