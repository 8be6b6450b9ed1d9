package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	main "github.com/weblimit/weblimit/cmd/weblimitd"
	"github.com/weblimit/weblimit/internal/test/check"
)

// ratelimitEnv is what envoyproxy/ratelimit needs at least: its files, and a Redis.
func ratelimitEnv(t *testing.T) []string {
	t.Helper()
	dir := envoyFolder(t)
	return []string{"RUNTIME_ROOT=" + filepath.Dir(dir), "RUNTIME_APPDIRECTORY=" + filepath.Base(dir), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:1"}
}

// outcome is what a variable becomes beside others.
type outcome struct {
	value string
	also  string // other variables, with blanks between them
	want  string // in the line about it, or "refused: " and what is in the error
}

// outcomes has each variable of envoyproxy/ratelimit.
func outcomes(t *testing.T) map[string]outcome {
	t.Helper()
	pem := certificate(t, authority(t, "ca"), "localhost")
	withTLS := "GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=" + pem.cert + " GRPC_SERVER_TLS_KEY=" + pem.key
	redisTLS := "REDIS_TLS=true REDIS_TLS_CLIENT_CERT=" + pem.cert + " REDIS_TLS_CLIENT_KEY=" + pem.key
	const plane = "CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=127.0.0.1:1 FORCE_START_WITHOUT_INITIAL_CONFIG=true WEBLIMIT_ENVOY_XDS_WAIT=1ms" // where there is none
	planeTLS := plane + " CONFIG_GRPC_XDS_SERVER_USE_TLS=true CONFIG_GRPC_XDS_CLIENT_TLS_CERT=" + pem.cert + " CONFIG_GRPC_XDS_CLIENT_TLS_KEY=" + pem.key
	const headers, prometheus = "LIMIT_RESPONSE_HEADERS_ENABLED=true", "USE_PROMETHEUS=true"
	const traced = "TRACING_ENABLED=true OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"
	const memcache, second = "BACKEND_TYPE=memcache", "REDIS_PERSECOND=true"
	all := map[string]outcome{
		"HOST": {"127.0.0.1", "", "--listen 127.0.0.1:8080"}, "PORT": {"8090", "", "--listen 0.0.0.0:8090"},
		"DEBUG_HOST": {"::1", "", "--admin-listen [::1]:6070"}, "DEBUG_PORT": {"6071", "", "--admin-listen 0.0.0.0:6071"},
		"GRPC_HOST": {"127.0.0.1", "", "--grpc-listen 127.0.0.1:8081"}, "GRPC_PORT": {"8091", "", "--grpc-listen 0.0.0.0:8091"},
		"GRPC_UDS":                {"/tmp/ratelimit.sock", "", "--grpc-listen unix:/tmp/ratelimit.sock"},
		"GRPC_MAX_CONNECTION_AGE": {"24h", "", "--grpc-max-age 24h"}, "GRPC_MAX_CONNECTION_AGE_GRACE": {"1h", "", "not needed: calls have 30 seconds"},
		"GRPC_SERVER_USE_TLS": {"t", withTLS, "--tls-grpc-only true"}, "GRPC_SERVER_TLS_CERT": {pem.cert, withTLS, "--tls-cert " + pem.cert},
		"GRPC_SERVER_TLS_KEY": {pem.key, withTLS, "--tls-key " + pem.key}, "GRPC_CLIENT_TLS_CACERT": {pem.ca, withTLS, "--tls-client-ca " + pem.ca},
		"GRPC_CLIENT_TLS_SAN": {"envoy.example", withTLS + " GRPC_CLIENT_TLS_CACERT=" + pem.ca, "--tls-client-names envoy.example"}, "GRPC_SERVER_TLS_CA_CERT": {pem.ca, withTLS, "--tls-client-ca " + pem.ca},

		"RUNTIME_SUBDIRECTORY": {".", "", "--envoy-config /"}, "RUNTIME_IGNOREDOTFILES": {"true", "", "not needed: files whose names"}, "RUNTIME_WATCH_ROOT": {"false", "", "not needed: files are followed"},
		"MERGE_DOMAIN_CONFIG": {"true", "", "--envoy-merge-domains true"}, "FORCE_START_WITHOUT_INITIAL_CONFIG": {"true", "", "--envoy-start-without-config true"},
		"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED": {"true", "", "--envoy-unhealthy-without-config true"}, "CONFIG_TYPE": {"FILE", "", "not needed"},
		"CONFIG_GRPC_XDS_SERVER_URL": {"127.0.0.1:2", plane, "--envoy-config xds:127.0.0.1:2"}, "CONFIG_GRPC_XDS_NODE_ID": {"limits", plane, "--envoy-xds-node-id limits"},
		"CONFIG_GRPC_XDS_NODE_METADATA": {"zone=a,role=b", plane, "--envoy-xds-node-metadata zone=a,role=b"}, "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": {"x-token:s3cret", plane, "WEBLIMIT_ENVOY_XDS_HEADERS (secret)"},
		"CONFIG_GRPC_XDS_SERVER_USE_TLS": {"t", plane, "--envoy-xds-tls true"}, "CONFIG_GRPC_XDS_CLIENT_TLS_CERT": {pem.cert, planeTLS, "--envoy-xds-cert " + pem.cert},
		"CONFIG_GRPC_XDS_CLIENT_TLS_KEY": {pem.key, planeTLS, "--envoy-xds-key " + pem.key}, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT": {pem.ca, planeTLS, "--envoy-xds-cacert " + pem.ca},
		"CONFIG_GRPC_XDS_SERVER_TLS_SAN": {"gateway", planeTLS, "--envoy-xds-server-name gateway"}, "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL": {"3s", plane, "not needed: pauses are those"},
		"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": {"40s", plane, "--envoy-xds-retry 40s"}, "XDS_CLIENT_BACKOFF_MAX_INTERVAL": {"2m", plane, "--envoy-xds-max-retry 2m"},
		"XDS_CLIENT_BACKOFF_RANDOM_FACTOR": {"0.5", plane, "not needed: pauses are those"}, "XDS_CLIENT_BACKOFF_JITTER": {"true", plane, "not needed: pauses are shortened"},
		"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": {"1048576", plane, "--envoy-xds-max-message 1048576"},

		"SHADOW_MODE": {"1", "", "--envoy-shadow true"}, "QUOTA_MODE": {"TRUE", "", "--envoy-quota true"}, "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": {"false", "", "--envoy-overdraw always"},
		"RESPONSE_DYNAMIC_METADATA": {"true", "", "--envoy-dynamic-metadata true"}, "NEAR_LIMIT_RATIO": {"0.5", "", "--envoy-near-limit 0.5"},
		"LIMIT_RESPONSE_HEADERS_ENABLED": {"true", "", "--envoy-limit-headers true"}, "LIMIT_LIMIT_HEADER": {"X-A", headers, "--envoy-limit-header X-A"},
		"LIMIT_REMAINING_HEADER": {"X-B", headers, "--envoy-remaining-header X-B"}, "LIMIT_RESET_HEADER": {"X-C", headers, "--envoy-reset-header X-C"},

		"BACKEND_TYPE": {"redis", "", "not needed"}, "REDIS_SOCKET_TYPE": {"tcp", "", "--redis redis://127.0.0.1:1"}, "REDIS_TYPE": {"cluster", "", "--redis-cluster true"},
		"REDIS_AUTH": {"app:s3cret", "", "--redis-user app\nREDIS_AUTH: WEBLIMIT_REDIS_PASSWORD (secret)"}, "REDIS_SENTINEL_AUTH": {"s3cret", "REDIS_TYPE=SENTINEL REDIS_URL=main,127.0.0.1:1", "WEBLIMIT_REDIS_SENTINEL_PASSWORD (secret)"},
		"REDIS_TLS": {"true", "", "--redis rediss://"}, "REDIS_TLS_CLIENT_CERT": {pem.cert, redisTLS, "--redis-cert " + pem.cert}, "REDIS_TLS_CLIENT_KEY": {pem.key, redisTLS, "--redis-key " + pem.key},
		"REDIS_TLS_CACERT": {pem.ca, redisTLS, "--redis-cacert " + pem.ca}, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION": {"true", redisTLS, "refused: set --redis-cacert, or unset it; names are always verified"},
		"REDIS_POOL_SIZE": {"7", "", "--redis-pool-size 7"}, "REDIS_TIMEOUT": {"5s", "", "--envoy-timeout 5s"}, "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION": {"true", "", "--ready-in-outage false"},
		"CACHE_KEY_PREFIX": {"rl:", "", "--prefix rl:"}, "REDIS_PERSECOND": {"true", "", "refused: unset it; one Redis has all units"},
		"EXPIRATION_JITTER_MAX_SECONDS": {"300", "", "not needed: keys expire"}, "LOCAL_CACHE_SIZE_IN_BYTES": {"0", "", "not needed: clients over their limit"},

		"LOG_LEVEL": {"Warning", "", "--log-level warn"}, "LOG_FORMAT": {"JSON", "", "--log-format json"},
		"USE_STATSD": {"true", "", "refused: unset it; Prometheus scrapes"}, "USE_DOG_STATSD": {"true", "", "refused: unset it; Prometheus scrapes"},
		"STATSD_HOST": {"x", "", "refused: unset it; Prometheus scrapes"}, "STATSD_PORT": {"9125", "USE_STATSD=false", "not needed"}, "EXTRA_TAGS": {"a:b", "USE_STATSD=false", "not needed"},
		"STATS_FLUSH_INTERVAL": {"1s", "USE_STATSD=false", "not needed"}, "USE_DOG_STATSD_MOGRIFIERS": {"x", "USE_DOG_STATSD=true", "refused: unset it; Prometheus scrapes"},
		"DISABLE_STATS": {"true", "", "not needed"}, "USE_PROMETHEUS": {"true", "", "--metrics-listen :9090"}, "PROMETHEUS_ADDR": {":19001", prometheus, "--metrics-listen :19001"},
		"PROMETHEUS_PATH": {"/stats", prometheus, "--metrics-path /stats"}, "PROMETHEUS_MAPPER_YAML": {"/etc/conf.yaml", prometheus, "not read: names are those of the default mapping"},
		"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS": {"true", prometheus, "refused: unset it; times are in seconds"},
		"TRACING_ENABLED":                          {"true", traced, "traces are sent where"}, "TRACING_EXPORTER_PROTOCOL": {"grpc", traced, "refused: unset it; traces are sent over HTTP"},
		"TRACING_SERVICE_NAME": {"rl", traced, "traces have service.name=rl"}, "TRACING_SERVICE_NAMESPACE": {"ns", traced, "traces have service.namespace=ns"},
		"TRACING_SERVICE_INSTANCE_ID": {"pod", traced, "traces have service.instance.id=pod"}, "TRACING_SAMPLING_RATE": {"0.1", traced, "that part of traces is sent"},
	}
	for also, names := range map[string][2]string{
		memcache: {"refused: set --redis or --postgres", "MEMCACHE_HOST_PORT MEMCACHE_MAX_IDLE_CONNS MEMCACHE_SRV MEMCACHE_SRV_REFRESH MEMCACHE_TLS MEMCACHE_TLS_CLIENT_CERT" +
			" MEMCACHE_TLS_CLIENT_KEY MEMCACHE_TLS_CACERT MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION"},
		second: {"refused: unset it; one Redis has all units", "REDIS_PERSECOND_SOCKET_TYPE REDIS_PERSECOND_TYPE REDIS_PERSECOND_URL REDIS_PERSECOND_POOL_SIZE REDIS_PERSECOND_AUTH" +
			" REDIS_PERSECOND_TLS REDIS_PERSECOND_SENTINEL_AUTH REDIS_PERSECOND_PIPELINE_WINDOW REDIS_PERSECOND_PIPELINE_LIMIT" +
			" REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM REDIS_PERSECOND_TIMEOUT REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR"},
		"": {"not needed: calls wait for nothing", "REDIS_PIPELINE_WINDOW REDIS_PIPELINE_LIMIT REDIS_CLUSTER_PIPELINE_PARALLELISM REDIS_POOL_ON_EMPTY_BEHAVIOR" +
			" REDIS_STARTUP_INITIAL_INTERVAL REDIS_STARTUP_MAX_INTERVAL REDIS_STARTUP_MAX_ELAPSED_TIME"},
	} {
		for name := range strings.FieldsSeq(names[1]) {
			all[name] = outcome{"1", also, names[0]}
		}
	}
	return all
}

// Each variable of envoyproxy/ratelimit becomes a setting, is refused with what replaces it, or is not needed, and is
// said to be so. internal/suites/envoy compares the variables with its source.
func TestVariablesUnderTheNameRatelimit(t *testing.T) {
	t.Parallel()
	base, cases := ratelimitEnv(t), outcomes(t)
	for _, e := range base {
		name, value, _ := strings.Cut(e, "=")
		want := "--redis redis://127.0.0.1:1"
		if strings.HasPrefix(name, "RUNTIME_") {
			want = "--envoy-config /"
		}
		if _, known := cases[name]; !known {
			cases[name] = outcome{value, "", want}
		}
	}
	for _, name := range main.InheritedNames() {
		tt, known := cases[name]
		if !known {
			t.Errorf("%s has no case", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := append(append(base[:len(base):len(base)], strings.Fields(tt.also)...), name+"="+tt.value) // the last of a name counts
			code, out := asRatelimit(env, "--check")
			if why, refused := strings.CutPrefix(tt.want, "refused: "); refused {
				check.Equal(t, "is taken", code == 0, false)
				wants(t, out, "weblimitd: "+name+": "+why)
				return
			}
			check.Equal(t, "is taken", code == 0, true)
			wants(t, out, name+": "+tt.want)
			if strings.Contains(out, "s3cret") {
				t.Errorf("a password is in %s", out)
			}
		})
	}
}

// Where Redis is, in the ways that envoyproxy/ratelimit has for it.
func TestRedisUnderTheNameRatelimit(t *testing.T) {
	t.Parallel()
	files := ratelimitEnv(t)[:2]
	for _, tt := range []struct{ name, env, want string }{ // "refused: " as above
		{"an address", "REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379", "REDIS_URL: --redis redis://redis:6379\n"},
		{"with TLS", "REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 REDIS_TLS=true", "REDIS_URL: --redis rediss://redis:6379\n"},
		{"a socket, which is the default", "REDIS_URL=/var/run/redis.sock", "REDIS_URL: --redis unix:///var/run/redis.sock\n"},
		{"a URL", "REDIS_URL=redis://app:s3cret@redis:6379/2", "REDIS_URL: --redis redis://app:xxxxx@redis:6379/2\n"},
		{"a URL with TLS and without a port", "REDIS_URL=rediss://redis", "REDIS_URL: --redis rediss://redis:6379\n"},
		{"an address of IPv6", "REDIS_SOCKET_TYPE=tcp REDIS_URL=[::1]:6379", "REDIS_URL: --redis redis://[::1]:6379\n"},
		{"a Cluster", "REDIS_TYPE=cluster REDIS_URL=a:1,b:2,c:3", "REDIS_URL: --redis redis://a:1?addr=b%3A2&addr=c%3A3\nREDIS_TYPE: --redis-cluster true\n"},
		{"Sentinels", "REDIS_TYPE=SENTINEL REDIS_URL=main,a:1,b:2 REDIS_SENTINEL_AUTH=u:s3cret", "REDIS_URL: --redis-sentinel-master main\nREDIS_URL: --redis redis://a:1?addr=b%3A2\n"},
		{"another setting of ours", "REDIS_URL=redis:6379 REDIS_TYPE=cluster REDIS_AUTH=s3cret WEBLIMIT_REDIS=redis://other:1", "REDIS_URL: not needed: WEBLIMIT_REDIS is set\n"},
		{"another store of ours", "REDIS_URL=redis:6379 REDIS_POOL_SIZE=3 CACHE_KEY_PREFIX=x WEBLIMIT_POSTGRES=postgres://127.0.0.1:1/x", "CACHE_KEY_PREFIX: not needed: WEBLIMIT_POSTGRES is set\n"},

		{"none", "", "refused: REDIS_URL: it is not set"},
		{"an address where a socket is the default", "REDIS_URL=redis:6379", "refused: REDIS_URL: it must be the path of a socket"},
		{"one Sentinel too few", "REDIS_TYPE=sentinel REDIS_URL=main", "refused: REDIS_URL: with REDIS_TYPE=sentinel"},
		{"another type", "REDIS_TYPE=ring REDIS_URL=/x", `refused: REDIS_TYPE: "ring" must be`},
		{"a password that makes no URL", "REDIS_URL=redis://:s3cret/x%zz@redis:6379", "refused: REDIS_URL: it is no URL"},
		{"several passwords", "REDIS_TYPE=cluster REDIS_URL=redis://:s3cret1@a:1,redis://:s3cret2@b:2", "refused: REDIS_URL: its addresses have several users or passwords"},
		{"nothing that is an address", "REDIS_SOCKET_TYPE=tcp REDIS_URL=http://redis", "refused: REDIS_URL: it must be host:port"},
		{"two passwords", "REDIS_URL=redis://:s3cret@redis:6379 REDIS_AUTH=s3cret", "refused: --redis: the password is in several places"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, out := asRatelimit(append(strings.Fields(tt.env), files...), "--check")
			want, refused := strings.CutPrefix(tt.want, "refused: ")
			check.Equal(t, "is taken", code == 0, !refused)
			wants(t, out, want)
			if strings.Contains(out, "s3cret") {
				t.Errorf("a password is in %s", out)
			}
		})
	}
}

// A secret of Kubernetes often ends with a line.
func TestALineBreakUnderTheNameRatelimit(t *testing.T) {
	t.Parallel()
	passes(t, "REDIS_URL: --redis redis://redis:6379\n")(asRatelimit(append(ratelimitEnv(t), "REDIS_URL=redis:6379\n"), "--check"))
}

// Settings of weblimitd win over variables, which win over what an image has as defaults.
func TestPrecedenceUnderTheNameRatelimit(t *testing.T) {
	t.Parallel()
	env := append(ratelimitEnv(t), "PORT=8090", "WEBLIMIT_DEFAULT_LISTEN=:9180", "WEBLIMIT_DEFAULT_LOG_FORMAT=json")
	passes(t, "PORT: --listen 0.0.0.0:8090\n")(asRatelimit(env, "--check"))
	passes(t, "PORT: not needed: --listen is set\n")(asRatelimit(env, "--check", "--listen", ":1"))
	passes(t, "PORT: not needed: WEBLIMIT_LISTEN is set\n")(asRatelimit(append(env, "WEBLIMIT_LISTEN=:1"), "--check"))
	passes(t, "PORT: not needed: --listen is set\n")(asRatelimit(env, "--check", "--config", write(t, "weblimitd.yaml", "listen: ':1'\n")))
	passes(t, "by the name ratelimit: --grpc-listen 0.0.0.0:8081\n")(asRatelimit(env, "--check"))
	passes(t, "")(inside([]string{"WEBLIMIT_DEFAULT_LISTEN=:9180"}, "--check", "--policy", write(t, "limits.yaml", onePolicy("1", 5))))
	fails(t, `WEBLIMIT_DEFAULT_LISTEN: "x" must be host:port`)(inside([]string{"WEBLIMIT_DEFAULT_LISTEN=x"}, "--check", "--policy", write(t, "limits.yaml", onePolicy("1", 5))))
	fails(t, "WEBLIMIT_DEFAULT_LISTN: there is no such setting")(inside([]string{"WEBLIMIT_DEFAULT_LISTN=x"}, "--check", "--policy", write(t, "limits.yaml", onePolicy("1", 5))))
}

// A control plane takes the place of files, by the defaults of envoyproxy/ratelimit. What means nothing is said.
func TestAControlPlaneUnderTheNameRatelimit(t *testing.T) {
	t.Parallel()
	env := append(ratelimitEnv(t), "CONFIG_TYPE=GRPC_XDS_SOTW", "FORCE_START_WITHOUT_INITIAL_CONFIG=true", "WEBLIMIT_ENVOY_XDS_WAIT=1ms", "CONFIG_GRPC_XDS_SERVER_TLS_SAN=x", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=0")
	code, out := asRatelimit(env, "--check")
	check.Equal(t, "is taken", code == 0, true)
	wants(t, out, "CONFIG_TYPE: --envoy-config xds:localhost:18000\n", "by the name ratelimit: --envoy-xds-node-id default\n", "RUNTIME_ROOT: not needed: a control plane has the limits\n",
		"CONFIG_GRPC_XDS_SERVER_TLS_SAN: not needed: it means nothing without CONFIG_TYPE=GRPC_XDS_SOTW and CONFIG_GRPC_XDS_SERVER_USE_TLS=true\n", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: not needed: it is the default\n", "0 domains, 0 limits")
	passes(t, "CONFIG_TYPE: not needed: WEBLIMIT_ENVOY_CONFIG is set\n")(asRatelimit(append(env, "WEBLIMIT_ENVOY_CONFIG=xds:127.0.0.1:1"), "--check"))
	fails(t, `CONFIG_TYPE: "GRPC" must be FILE or GRPC_XDS_SOTW`)(asRatelimit(append(env, "CONFIG_TYPE=GRPC"), "--check"))
	fails(t, "XDS_CLIENT_BACKOFF_JITTER: unset it; pauses are shortened at random")(asRatelimit(append(env, "XDS_CLIENT_BACKOFF_JITTER=false"), "--check"))
}

// That callers of Envoy's service need no token lets nobody ask by a policy.
func TestThePolicyIsNotOpenUnderTheNameRatelimit(t *testing.T) {
	t.Parallel()
	env := append(ratelimitEnv(t), "PORT=0", "GRPC_PORT=0", "DEBUG_PORT=0")
	fails(t, "everybody on the network could use up")(runAs(t, asEntry, env, "--policy", write(t, "limits.yaml", onePolicy("1", 5))))
}
