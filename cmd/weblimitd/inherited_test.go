package main_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	main "github.com/weblimit/weblimit/cmd/weblimitd"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// What envoyproxy/ratelimit is told by its variables is refused with what stands for it, and not passed
// over: it counted in memory and enforced, with REDIS_URL and SHADOW_MODE=true.
func TestVariablesOfEnvoyproxyRatelimit(t *testing.T) {
	t.Parallel()
	dir := envoyFolder(t)
	asks := []string{"--check", "--envoy-config", dir}
	for _, tt := range []struct {
		name  string
		env   string // with blanks between variables
		flags []string
		wants []string // none if it is taken
	}{
		{"a service in a container", "USE_STATSD=false LOG_LEVEL=debug REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit SHADOW_MODE=true", nil, []string{
			"LOG_LEVEL is a variable of envoyproxy/ratelimit, which is not read here: set --log-level, or unset it\n",
			"REDIS_SOCKET_TYPE", "REDIS_URL is a variable of envoyproxy/ratelimit, which is not read here: set --redis or --postgres, or unset it\n",
			"SHADOW_MODE is a variable of envoyproxy/ratelimit, which is not read here: set --envoy-shadow, or unset it\n", "docs/service/envoy.md",
		}},
		{"the same with settings", "USE_STATSD=false LOG_LEVEL=debug REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 RUNTIME_ROOT=/data SHADOW_MODE=true", []string{"--redis", "redis://127.0.0.1:1", "--log-level", "debug", "--envoy-shadow"}, nil},
		{"what is so anyway", "SHADOW_MODE=false QUOTA_MODE=0 LOG_LEVEL=INFO LOG_FORMAT=text REDIS_TLS=false CONFIG_TYPE=FILE NEAR_LIMIT_RATIO=0.80 REDIS_PERSECOND=f STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true EXPIRATION_JITTER_MAX_SECONDS=30", nil, nil},
		{"what means nothing", "GRPC_CLIENT_TLS_CACERT=/ca.pem LIMIT_LIMIT_HEADER=X MEMCACHE_SRV=x REDIS_PERSECOND_URL=x CONFIG_GRPC_XDS_NODE_ID=x TRACING_SAMPLING_RATE=1 PROMETHEUS_PATH=/x STATSD_HOST=x USE_STATSD=false", nil, nil},
		{"what means something beside another", "GRPC_SERVER_USE_TLS=true GRPC_CLIENT_TLS_CACERT=/ca.pem LIMIT_RESPONSE_HEADERS_ENABLED=1 LIMIT_LIMIT_HEADER=X BACKEND_TYPE=memcache MEMCACHE_SRV=x REDIS_PERSECOND=true REDIS_PERSECOND_URL=x CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_NODE_ID=x TRACING_ENABLED=true TRACING_SAMPLING_RATE=1 USE_PROMETHEUS=true PROMETHEUS_PATH=/x STATSD_HOST=x", nil, []string{
			"GRPC_SERVER_USE_TLS", "--tls-client-ca", "LIMIT_RESPONSE_HEADERS_ENABLED", "--envoy-limit-header,", "BACKEND_TYPE", "MEMCACHE_SRV", "REDIS_PERSECOND ", "REDIS_PERSECOND_URL",
			"CONFIG_TYPE", "CONFIG_GRPC_XDS_NODE_ID", "TRACING_ENABLED", "TRACING_SAMPLING_RATE", "PROMETHEUS_PATH", "STATSD_HOST",
		}},
		{"a password that is not repeated", "REDIS_AUTH=s3cret", []string{"--redis", "redis://127.0.0.1:1"}, []string{"REDIS_AUTH is a variable of envoyproxy/ratelimit, which is not read here: set WEBLIMIT_REDIS_PASSWORD or --redis-password-file, or unset it\n"}},
		{"a password in the URL", "REDIS_AUTH=s3cret WEBLIMIT_REDIS=redis://:s3cret@127.0.0.1:1", nil, nil},
		{"TLS", "REDIS_TLS=true", []string{"--redis", "redis://127.0.0.1:1"}, []string{"REDIS_TLS", "--redis rediss://"}},
		{"TLS by URL", "REDIS_TLS=true REDIS_TLS_CACERT=/ca.pem", []string{"--redis", "rediss://127.0.0.1:1"}, []string{"REDIS_TLS_CACERT", "--redis-cacert"}},
		{"PostgreSQL in place of Redis", "REDIS_URL=redis:6379 REDIS_AUTH=x REDIS_TYPE=cluster CACHE_KEY_PREFIX=x BACKEND_TYPE=redis", []string{"--postgres", "postgres://127.0.0.1:1/x"}, nil},
		{"of Services named statsd and grpc", "STATSD_PORT=udp://10.0.0.1:8125 GRPC_PORT=tcp://10.0.0.2:80", nil, nil},
		{"Envoy Gateway's", "CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001 CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit CONFIG_GRPC_XDS_SERVER_USE_TLS=true" +
			" CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/certs/tls.key CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/ca.crt FORCE_START_WITHOUT_INITIAL_CONFIG=true", nil, []string{
			"CONFIG_TYPE is a variable of envoyproxy/ratelimit, which is not read here: unset it; --envoy-config xds:HOST:PORT for GRPC_XDS_SOTW",
			"CONFIG_GRPC_XDS_SERVER_USE_TLS is a variable of envoyproxy/ratelimit, which is not read here: set --envoy-xds-tls,", "set --envoy-xds-cert,", "set --envoy-xds-key,", "set --envoy-xds-cacert,",
			"FORCE_START_WITHOUT_INITIAL_CONFIG is a variable of envoyproxy/ratelimit, which is not read here: set --envoy-start-without-config,",
		}},
		{"an empty variable", "SHADOW_MODE= REDIS_URL=", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, out := inside(strings.Fields(tt.env), append(asks, tt.flags...)...)
			check.Equal(t, "is taken", code == 0, tt.wants == nil)
			for _, want := range tt.wants {
				check.Contains(t, "the error", out, want)
			}
			if strings.Contains(out, "s3cret") {
				t.Errorf("a password is in %s", out)
			}
		})
	}
	// With the settings that stand for them they are taken. No control plane is asked: there is none here.
	pem := certificate(t, authority(t, "ca"), "localhost")
	byXDS := []string{
		"--check", "--envoy-config", "xds:127.0.0.1:1", "--envoy-start-without-config", "--envoy-xds-wait", "1ms", "--envoy-xds-tls", "--envoy-xds-cacert", pem.ca,
		"--envoy-xds-cert", pem.cert, "--envoy-xds-key", pem.key, "--envoy-xds-retry", "2s",
	}
	passes(t, "0 domains, 0 limits")(inside(strings.Fields("CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=a:1 CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit CONFIG_GRPC_XDS_SERVER_USE_TLS=true"+
		" CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/a CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/b CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/c FORCE_START_WITHOUT_INITIAL_CONFIG=true"+
		" XDS_CLIENT_BACKOFF_INITIAL_INTERVAL=2s XDS_CLIENT_BACKOFF_RANDOM_FACTOR=0.5 XDS_CLIENT_BACKOFF_JITTER=true"), byXDS...))
	fails(t, "set --envoy-unhealthy-without-config")(inside([]string{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true"}, byXDS...))
	fails(t, "set --envoy-xds-node-id")(inside([]string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_NODE_ID=other"}, byXDS...))
	// They are common names, and of no concern to a service that does not serve Envoy.
	limits := write(t, "limits.yaml", onePolicy("1", 5))
	passes(t, "")(inside([]string{"PORT=8080", "HOST=web", "LOG_LEVEL=trace", "REDIS_URL=redis://redis:6379", "SHADOW_MODE=true"}, "--check", "--policy", limits))
	// Who only sets those has an answer, too.
	fails(t, "set --envoy-config to the folder")(inside([]string{"RUNTIME_ROOT=/data"}, "--check"))
}

var variableRows = regexp.MustCompile(`(?s)<!-- variables -->\n.*?<!-- end -->`)

// The table of variables in docs/service/envoy.md is that of the program.
func TestVariablesInTheDocs(t *testing.T) {
	t.Parallel()
	const page = "../../docs/service/envoy.md"
	text := must.Get(os.ReadFile(page))(t)
	want := variableRows.ReplaceAllLiteralString(string(text), "<!-- variables -->\n\n| Variable | As weblimitd | As ratelimit |\n| --- | --- | --- |\n"+main.InheritedRows()+"\n<!-- end -->")
	if want == string(text) && variableRows.Match(text) {
		return
	}
	if *update {
		must.OK(t, os.WriteFile(page, []byte(want), 0o600))
		return
	}
	t.Error("the variables in docs/service/envoy.md are not those of the program: run go test -run VariablesInTheDocs -update")
}

// Settings for Envoy do nothing without its files, and say so.
func TestSettingsForEnvoyAlone(t *testing.T) {
	t.Parallel()
	limits := write(t, "limits.yaml", onePolicy("1", 5))
	fails(t, "--envoy-shadow needs --envoy-config")(inside(nil, "--check", "--policy", limits, "--envoy-shadow"))
	fails(t, "--envoy-reset-header needs --envoy-limit-headers")(inside(nil, "--check", "--envoy-config", envoyFolder(t), "--envoy-reset-header", "X"))
	fails(t, "is no name of a header")(inside(nil, "--check", "--envoy-config", envoyFolder(t), "--envoy-limit-headers", "--envoy-reset-header", "a b"))
	fails(t, "two of the names are")(inside(nil, "--check", "--envoy-config", envoyFolder(t), "--envoy-limit-headers", "--envoy-reset-header", "x-a", "--envoy-limit-header", "X-A"))
	fails(t, "--envoy-config redis:KEY needs --redis")(inside(nil, "--check", "--envoy-config", "redis:edge"))
	fails(t, "above 0 and at most 1")(inside(nil, "--check", "--envoy-config", envoyFolder(t), "--envoy-near-limit", "1.5"))
	// An image has the address of a listener that it may not need.
	passes(t, "")(inside([]string{"WEBLIMIT_GRPC_LISTEN=:9182"}, "--check", "--policy", limits))
}
