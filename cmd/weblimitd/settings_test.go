package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/settings"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/race"
)

// help is what --help prints.
func help(t *testing.T) string {
	t.Helper()
	code, text := inside(nil, "--help")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, text)
	}
	return text
}

var (
	flagLine   = regexp.MustCompile(`(?m)^  --([a-z-]+) `)
	secretLine = regexp.MustCompile(`(?m)^  (WEBLIMIT_[A-Z_]+) `)
)

// valid are values that each setting takes, other than its default.
func valid(t *testing.T) map[string]string {
	pem := certificate(t, authority(t, "ca"), "localhost")
	text := write(t, "text", "0123456789abcdef0123456789\n")
	users := write(t, "users", "ops:0123456789abcdef:act\n")
	return map[string]string{
		"config": write(t, "empty.yaml", "# nothing\n"), "end-mark": "true", "policy-keep": filepath.Join(t.TempDir(), "kept.yaml"),
		"listen": "127.0.0.1:0", "admin-listen": "off", "grpc-listen": "127.0.0.1:0", "insecure-listen": "true",
		"metrics-listen": "127.0.0.1:0", "metrics-path": "/stats",
		"socket-mode": "0600", "socket-group": "root", "admin-socket-group": "root",
		"redis": "redis://127.0.0.1:1", "redis-cluster": "true", "redis-sentinel-master": "main", "redis-user": "app",
		"redis-password-file": text, "redis-sentinel-user": "s", "redis-sentinel-password-file": text,
		"redis-cacert": pem.ca, "redis-cert": pem.cert, "redis-key": pem.key, "redis-pool-size": "7", "prefix": "p:",
		"postgres": "postgres://127.0.0.1:1/x", "postgres-schema": "limits", "postgres-password-file": text, "replicas": "3",
		"region": "eu", "regions": "3", "region-floor": "20", "home-timeout": "1s",
		"home-redis": "redis://127.0.0.1:1", "home-redis-cluster": "true", "home-redis-sentinel-master": "main", "home-redis-user": "app",
		"home-redis-password-file": text, "home-redis-sentinel-user": "s", "home-redis-sentinel-password-file": text,
		"home-redis-cacert": pem.ca, "home-redis-cert": pem.cert, "home-redis-key": pem.key, "home-redis-pool-size": "7", "home-prefix": "p:",
		"tokens-file": text, "tls-cert": pem.cert, "tls-key": pem.key, "tls-client-ca": pem.ca, "tls-client-names": "a,b", "tls-grpc-only": "true",
		"admin-users-file": users, "admin-hosts": "limits.example.com", "admin-tls-cert": pem.cert, "admin-tls-key": pem.key,
		"admin-tls-client-ca": pem.ca, "admin-tls-client-names": "a,b", "pprof": "true",
		"reservation-secrets-file": write(t, "secrets", "0123456789abcdef0123456789abcdef"), "gateway-trusted": "10.0.0.0/8", "gateway-proxies": "10.0.0.0/8,2001:db8::/32",
		"envoy-config": envoyFolder(t), "envoy-outage": "deny", "envoy-independent": "true", "envoy-overdraw": "always", "envoy-algorithm": "token_bucket",
		"envoy-merge-domains": "true", "envoy-shadow": "true", "envoy-quota": "true", "envoy-limit-headers": "true", "envoy-dynamic-metadata": "true",
		"envoy-limit-header": "X-Limit", "envoy-remaining-header": "X-Remaining", "envoy-reset-header": "X-Reset",
		"envoy-near-limit": "0.5", "envoy-timeout": "20ms", "envoy-max-descriptors": "3", "envoy-max-entries": "4", "envoy-max-series": "5",
		"envoy-start-without-config": "true", "envoy-unhealthy-without-config": "true", "envoy-xds-node-id": "limits", "envoy-xds-node-metadata": "zone=a,role=b",
		"envoy-xds-headers-file": write(t, "headers", "# for the control plane\nx-tenant: a\nauthorization: Bearer a,b\n"), "envoy-xds-tls": "true",
		"envoy-xds-cacert": pem.ca, "envoy-xds-cert": pem.cert, "envoy-xds-key": pem.key, "envoy-xds-server-name": "envoy-gateway",
		"envoy-xds-wait": "2ms", "envoy-xds-retry": "20ms", "envoy-xds-max-retry": "1m", "envoy-xds-max-message": "1048576",
		"max-connections": "10", "max-in-flight": "10", "header-timeout": "1s", "read-timeout": "2s", "idle-timeout": "3s", "grpc-max-age": "1m",
		"memory-limit": "512MiB", "drain-delay": "0s", "drain-timeout": "1s", "ready-in-outage": "false",
		"log-format": "json", "log-level": "debug", "log-denials": "false", "instance": "web-1",
	}
}

// ofRegion are the settings of each region.
var ofRegion = slices.Clip([]string{"region", "regions", "redis", "home-redis"})

// needs are the settings that another one needs beside it.
var needs = map[string][]string{
	"grpc-listen": {"envoy-config"}, "metrics-path": {"metrics-listen"}, "tls-grpc-only": {"tls-cert", "tls-key", "envoy-config"}, "envoy-limit-header": {"envoy-limit-headers"}, "envoy-remaining-header": {"envoy-limit-headers"}, "envoy-reset-header": {"envoy-limit-headers"},
	"redis-password-file": {"redis"}, "redis-sentinel-user": {"redis", "redis-sentinel-master"}, "redis-sentinel-password-file": {"redis", "redis-sentinel-master"},
	"redis-pool-size": {"redis"}, "prefix": {"redis"}, "replicas": {"redis"},
	"postgres-schema": {"postgres"}, "postgres-password-file": {"postgres"}, "redis-cluster": {"redis"}, "redis-sentinel-master": {"redis"}, "redis-user": {"redis", "redis-password-file"},
	"redis-cacert": {"redis!"}, "redis-cert": {"redis!", "redis-key"}, "redis-key": {"redis!", "redis-cert"},
	"region": ofRegion, "regions": ofRegion, "region-floor": ofRegion, "home-timeout": ofRegion, "home-redis": ofRegion, "home-redis-cluster": ofRegion,
	"home-redis-sentinel-master": ofRegion, "home-redis-user": append(ofRegion, "home-redis-password-file"), "home-redis-password-file": ofRegion,
	"home-redis-sentinel-user": append(ofRegion, "home-redis-sentinel-master"), "home-redis-sentinel-password-file": append(ofRegion, "home-redis-sentinel-master"),
	"home-redis-cacert": append(ofRegion, "home-redis!"), "home-redis-cert": append(ofRegion, "home-redis!", "home-redis-key"), "home-redis-key": append(ofRegion, "home-redis!", "home-redis-cert"),
	"home-redis-pool-size": ofRegion, "home-prefix": ofRegion,
	"envoy-xds-cacert": {"envoy-xds-tls"}, "envoy-xds-cert": {"envoy-xds-tls", "envoy-xds-key"}, "envoy-xds-key": {"envoy-xds-tls", "envoy-xds-cert"}, "envoy-xds-server-name": {"envoy-xds-tls"},
	"tls-cert": {"tls-key"}, "tls-key": {"tls-cert"}, "tls-client-ca": {"tls-cert", "tls-key"},
	"tls-client-names": {"tls-client-ca", "tls-cert", "tls-key"},
	"admin-tls-cert":   {"admin-tls-key"}, "admin-tls-key": {"admin-tls-cert"}, "admin-tls-client-ca": {"admin-tls-cert", "admin-tls-key"},
	"admin-tls-client-names": {"admin-tls-client-ca", "admin-tls-cert", "admin-tls-key"},
}

// Every setting is taken by its flag, its variable and its line in the file.
func TestEverySettingByFlagEnvironmentAndFile(t *testing.T) {
	t.Parallel()
	policy := write(t, "limits.yaml", onePolicy("1", 5)+"...\n")
	values := valid(t)
	values["policy"] = policy
	for _, found := range flagLine.FindAllStringSubmatch(help(t), -1) {
		name := found[1]
		value, ok := values[name]
		if !ok {
			t.Errorf("valid has no value for --%s", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := map[string]string{name: value, "policy": policy}
			needed := needs[name]
			if strings.HasPrefix(name, "envoy-") && name != "envoy-config" {
				needed = append(slices.Clone(needed), "envoy-config")
			}
			for _, other := range needed {
				if url, secured := strings.CutSuffix(other, "!"); secured {
					all[url] = "rediss://127.0.0.1:1"
				} else {
					all[other] = values[other]
				}
			}
			if strings.HasPrefix(name, "envoy-xds-") { // there is no control plane, and --check does not wait for one
				all["envoy-config"], all["envoy-start-without-config"], all["envoy-xds-wait"] = "xds:127.0.0.1:1", "true", values["envoy-xds-wait"]
			}
			var flags, env []string
			file := ""
			for name, value := range all {
				flags = append(flags, "--"+name+"="+value)
				env = append(env, "WEBLIMIT_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+value)
				if name != "config" {
					file += name + ": " + `"` + value + `"` + "\n"
				}
			}
			passes(t, "")(inside(nil, append(flags, "--check")...))
			passes(t, "")(inside(env, "--check"))
			passes(t, "")(inside(nil, "--check", "--config", write(t, "weblimitd.yaml", file)))
		})
	}
}

// A flag wins over the environment, and that over the file; status says where each comes from.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := write(t, "weblimitd.yaml", "max-in-flight: 2\ninstance: from-file\nidle-timeout: 1m\n")
	in := start(t, []string{"WEBLIMIT_MAX_IN_FLIGHT=3", "WEBLIMIT_INSTANCE=from-env", "WEBLIMIT_CONFIG=" + file}, "--max-in-flight", "4")
	_, status := in.get(t, "/status")
	for setting, want := range map[string]string{
		"max-in-flight": `{"value":"4","from":"flag"}`, "instance": `{"value":"from-env","from":"environment"}`,
		"idle-timeout": `{"value":"1m","from":"file"}`, "pprof": `{"value":"false","from":"default"}`,
	} {
		short := regexp.MustCompile(`\s`).ReplaceAllString(status, "")
		wants(t, short, `"`+setting+`":`+want)
	}
}

// What is wrong with settings is said, all at once, with what was meant.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	policy := write(t, "limits.yaml", onePolicy("1", 5))
	broken := write(t, "broken.yaml", "version: 1\npolicies: {api: {limits: {a: {limit: 5/minuet, by: ip}}}}")
	short := write(t, "short", "abc\n")
	pem := certificate(t, authority(t, "ca"), "localhost")
	other := certificate(t, authority(t, "ca"), "localhost")
	plain := write(t, "plain", "text")
	for name, c := range map[string]struct {
		env  []string
		args []string
		want []string
	}{
		"no policy":                      {nil, []string{}, []string{"nothing to decide by: set --policy"}},
		"a flag that there is not":       {nil, []string{"--polcy", policy}, []string{"--polcy: there is no such flag; did you mean --policy?"}},
		"a variable that there is not":   {[]string{"WEBLIMIT_ADMIN_LISTN=x"}, []string{"--policy", policy}, []string{"WEBLIMIT_ADMIN_LISTN: there is no such setting; did you mean WEBLIMIT_ADMIN_LISTEN?"}},
		"a line that there is not":       {nil, []string{"--policy", policy, "--config", write(t, "c", "drain_delay: 5s")}, []string{"c:1:1: drain_delay: there is no such setting; did you mean drain-delay?"}},
		"several at once":                {nil, []string{"--policy", policy, "--replicas", "0", "--log-level", "loud"}, []string{`--replicas: "0" must be a number from 1 to 100000`, `--log-level: "loud" must be one of debug, info, warn, error`}},
		"a flag with one dash":           {nil, []string{"-policy", policy}, []string{"-policy: flags begin with two dashes: --policy"}},
		"one that begins like -h":        {nil, []string{"-home-redis", "redis://a"}, []string{"-home-redis: flags begin with two dashes: --home-redis"}},
		"the version with one dash":      {nil, []string{"-version"}, []string{"-version: flags begin with two dashes: --version"}},
		"a variable of another name":     {[]string{"WEBLIMIT_SENTINEL_PASSWORD=secret"}, []string{"--policy", policy}, []string{"WEBLIMIT_SENTINEL_PASSWORD: the name is now WEBLIMIT_REDIS_SENTINEL_PASSWORD"}},
		"a flag twice":                   {nil, []string{"--policy", policy, "--policy", policy}, []string{"--policy is there twice"}},
		"a flag without a value":         {nil, []string{"--policy"}, []string{"--policy needs a value"}},
		"a flag that follows a flag":     {nil, []string{"--policy", policy, "--policy-keep", "--log-denials"}, []string{"--policy-keep needs a value, and --log-denials follows"}},
		"an empty flag":                  {nil, []string{"--policy", policy, "--redis", "", "--tokens-file="}, []string{"--redis is empty: leave it out, or is a variable of the shell not set?", "--tokens-file is empty"}},
		"an empty line":                  {nil, []string{"--policy", policy, "--config", write(t, "c", `redis: ""`)}, []string{"c:1:1: redis: needs a value"}},
		"a check of a command":           {nil, []string{"reload", "--policy", policy}, []string{"leave out reload"}},
		"settings of a Redis without it": {[]string{"WEBLIMIT_REDIS_PASSWORD=secret"}, []string{"--policy", policy, "--redis-cluster", "--prefix", "a:"}, []string{"WEBLIMIT_REDIS_PASSWORD does nothing without --redis", "--redis-cluster does nothing without --redis", "--prefix does nothing without --redis"}},
		"Sentinels' password without":    {nil, []string{"--policy", policy, "--redis", "redis://a", "--redis-sentinel-user", "s"}, []string{"--redis-sentinel-user does nothing without --redis-sentinel-master"}},
		"a schema without PostgreSQL":    {nil, []string{"--policy", policy, "--postgres-schema", "a"}, []string{"--postgres-schema does nothing without --postgres"}},
		"instances without a store":      {nil, []string{"--policy", policy, "--replicas", "3"}, []string{"--replicas does nothing without --redis or --postgres"}},
		"gateways without a policy":      {nil, []string{"--envoy-config", envoyFolder(t), "--gateway-proxies", "10.0.0.0/8", "--policy-keep", "kept"}, []string{"--gateway-proxies does nothing without --policy", "--policy-keep does nothing without --policy"}},
		"operators without a listener":   {nil, []string{"--policy", policy, "--admin-listen", "off", "--pprof"}, []string{"--pprof does nothing without --admin-listen"}},
		"a secret of no log":             {[]string{"WEBLIMIT_LOG_SECRET=0123456789abcdef"}, []string{"--policy", policy, "--log-denials=false"}, []string{"WEBLIMIT_LOG_SECRET does nothing without --log-denials"}},
		"no boolean":                     {nil, []string{"--policy", policy, "--pprof=yes"}, []string{`"yes" must be true or false`}},
		"no duration":                    {nil, []string{"--policy", policy, "--drain-delay", "5"}, []string{`"5" is no duration such as 5s`}},
		"a long duration":                {nil, []string{"--policy", policy, "--drain-delay", "24h"}, []string{"must be from 0s to 10m0s"}},
		"a value of the environment":     {[]string{"WEBLIMIT_REPLICAS=x"}, []string{"--policy", policy}, []string{`WEBLIMIT_REPLICAS: "x" is no whole number`}},
		"a value of the file":            {nil, []string{"--policy", policy, "--config", write(t, "c", "x: 1\nlisten: [a")}, []string{"c:2: this is not valid YAML: did not find expected"}},
		"a list of the file":             {nil, []string{"--policy", policy, "--config", write(t, "c", "listen: {a: b}")}, []string{"c:1:1: listen: needs a value"}},
		"a line twice":                   {nil, []string{"--policy", policy, "--config", write(t, "c", "replicas: 1\nreplicas: 2")}, []string{"c:2:1: \"replicas\" is there twice, first in line 1"}},
		"a file that is none":            {nil, []string{"--policy", policy, "--config", "/nonexistent"}, []string{"the settings file: open /nonexistent"}},
		"a command that there is not":    {nil, []string{"stop", "--policy", policy}, []string{"the commands are healthcheck, status, reload, rollback, publish FILE and version"}},
		"a policy that is wrong":         {nil, []string{"--policy", broken}, []string{`unknown unit "minuet"; did you mean "minute"?`}},
		"a policy that is not there":     {nil, []string{"--policy", "/nonexistent"}, []string{"open /nonexistent"}},
		"a policy in Redis without it":   {nil, []string{"--policy", "redis:limits"}, []string{"--policy redis:KEY needs --redis"}},
		"a host name":                    {nil, []string{"--policy", policy, "--listen", "example.com:80"}, []string{"the host must be an IP address or localhost; write :80 for all addresses"}},
		"no port":                        {nil, []string{"--policy", policy, "--listen", "127.0.0.1"}, []string{"must be host:port, unix:/path, systemd:name or off"}},
		"a large settings file":          {nil, []string{"--policy", policy, "--config", write(t, "c", strings.Repeat("# a\n", 1<<18)+"replicas: 1")}, []string{"c has more than 1048576 bytes"}},
		"a large password":               {nil, []string{"--policy", policy, "--redis", "redis://a", "--redis-password-file", write(t, "p", strings.Repeat("p", 1<<20+1))}, []string{"p has more than 1048576 bytes"}},
		"a large port":                   {nil, []string{"--policy", policy, "--listen", ":70000"}, []string{"the port must be a number up to 65535"}},
		"a relative socket":              {nil, []string{"--policy", policy, "--listen", "unix:x"}, []string{"begins with a slash"}},
		"a long socket":                  {nil, []string{"--policy", policy, "--listen", "unix:/" + strings.Repeat("x", 100)}, []string{"at most 90 bytes"}},
		"one address twice":              {nil, []string{"--policy", policy, "--admin-listen", "127.0.0.1:9180"}, []string{"--listen and --admin-listen are both 127.0.0.1:9180"}},
		"nobody can ask":                 {nil, []string{"--policy", policy, "--listen", "off"}, []string{"nobody could ask"}},
		"a socket for everybody":         {nil, []string{"--policy", policy, "--socket-mode", "0666"}, []string{"would let everybody on this machine in"}},
		"a Redis of another kind":        {nil, []string{"--policy", policy, "--redis", "localhost:6379"}, []string{"--redis must begin with redis:// or rediss:// or unix://"}},
		"a region that is alone":         {nil, []string{"--policy", policy, "--region", "eu"}, []string{"--region does nothing without --home-redis", "--region does nothing without --redis or --postgres", "--region needs --regions, the number of regions"}},
		"a home without a region":        {nil, []string{"--policy", policy, "--redis", "redis://a", "--home-redis", "redis://b"}, []string{"--home-redis does nothing without --region"}},
		"regions without their name":     {[]string{"WEBLIMIT_HOME_REDIS_PASSWORD=secret"}, []string{"--policy", policy, "--regions", "3", "--region-floor", "20", "--home-timeout", "1s"}, []string{"--regions does nothing without --region", "--region-floor does nothing without --region", "--home-timeout does nothing without --region", "WEBLIMIT_HOME_REDIS_PASSWORD does nothing without --home-redis"}},
		"a region with a blank":          {nil, []string{"--policy", policy, "--redis", "redis://a", "--home-redis", "redis://b", "--regions", "2", "--region", "e u"}, []string{`--region: "e u" must have 1 to 64 letters, digits and . _ -`}},
		"one region of one":              {nil, []string{"--policy", policy, "--redis", "redis://a", "--home-redis", "redis://b", "--regions", "1", "--region", "eu"}, []string{`--regions: "1" must be a number from 2 to 64`}},
		"a home of another kind":         {nil, []string{"--policy", policy, "--redis", "redis://a", "--home-redis", "b:6379", "--regions", "2", "--region", "eu"}, []string{"--home-redis must begin with redis://"}},
		"a home without a password":      {nil, []string{"--policy", policy, "--redis", "redis://a", "--home-redis", "redis://app@b", "--regions", "2", "--region", "eu"}, []string{"--home-redis-user: there is a user and no password: set WEBLIMIT_HOME_REDIS_PASSWORD or --home-redis-password-file"}},
		"a home of two kinds":            {nil, []string{"--policy", policy, "--redis", "redis://a", "--home-redis", "redis://b", "--home-redis-cluster", "--home-redis-sentinel-master", "m", "--regions", "2", "--region", "eu"}, []string{"--home-redis-cluster and --home-redis-sentinel-master exclude each other"}},
		"regions in one":                 {nil, []string{"--policy", write(t, "limits.yaml", "policies: {api: {limits: {a: {limit: 5/minute, by: ip, regions: home}}}}")}, []string{`limit "a": Regions and Overdraft are for a store of several regions`}},
		"what can't be leased":           {nil, []string{"--policy", write(t, "limits.yaml", "policies: {api: {limits: {a: {limit: 5/minute log, by: ip}}}}"), "--redis", "redis://a", "--home-redis", "redis://b", "--regions", "2", "--region", "eu"}, []string{`limit "a": a sliding log can't be leased to regions: choose by Regions whether each region has the whole limit or home decides`}},
		"two stores":                     {nil, []string{"--policy", policy, "--redis", "redis://a", "--postgres", "postgres://b/c"}, []string{"--redis and --postgres exclude each other"}},
		"a cluster with Sentinels":       {nil, []string{"--policy", policy, "--redis", "redis://a", "--redis-cluster", "--redis-sentinel-master", "m"}, []string{"exclude each other"}},
		"a user without a password":      {nil, []string{"--policy", policy, "--redis", "redis://app@a"}, []string{"there is a user and no password"}},
		"two passwords":                  {[]string{"WEBLIMIT_REDIS_PASSWORD=a", "WEBLIMIT_REDIS=redis://:b@a"}, []string{"--policy", policy}, []string{"the password is in several places"}},
		"authorities without TLS":        {nil, []string{"--policy", policy, "--redis", "redis://a", "--redis-cacert", pem.ca}, []string{"are for rediss://"}},
		"a certificate without its key":  {nil, []string{"--policy", policy, "--tls-cert", pem.cert}, []string{"--tls-cert and --tls-key belong together"}},
		"the key of another certificate": {nil, []string{"--policy", policy, "--tls-cert", pem.cert, "--tls-key", other.key}, []string{"private key does not match"}},
		"authorities that are none":      {nil, []string{"--policy", policy, "--tls-cert", pem.cert, "--tls-key", pem.key, "--tls-client-ca", plain}, []string{"has no certificate in PEM"}},
		"names without authorities":      {nil, []string{"--policy", policy, "--tls-client-names", "a"}, []string{"--tls-client-names needs --tls-client-ca"}},
		"a short token":                  {nil, []string{"--policy", policy, "--tokens-file", short}, []string{short + ":1: a token has at least 16 bytes"}},
		"no token":                       {nil, []string{"--policy", policy, "--tokens-file", write(t, "none", "# nothing\n")}, []string{"has no token"}},
		"an operator without rights":     {nil, []string{"--policy", policy, "--admin-users-file", write(t, "u", "ops:0123456789abcdef:all")}, []string{`the user "ops" must end with :read or :act`}},
		"a short password":               {nil, []string{"--policy", policy, "--admin-users-file", write(t, "u", "ops:abc:act")}, []string{`the password of "ops" must have at least 16 bytes`}},
		"an operator twice":              {nil, []string{"--policy", policy, "--admin-users-file", write(t, "u", "ops:0123456789abcdef:act\nops:0123456789abcdef:read")}, []string{`there are two users "ops"`}},
		"an instance that is no name":    {nil, []string{"--policy", policy, "--instance", "a b"}, []string{"must have 1 to 64 letters, digits"}},
		"a little memory":                {nil, []string{"--policy", policy, "--memory-limit", "1KiB"}, []string{"at least 16MiB"}},
		"a schema":                       {nil, []string{"--policy", policy, "--postgres", "postgres://127.0.0.1/x", "--postgres-schema", "A"}, []string{"must have lower-case letters"}},
		"an empty hash tag":              {nil, []string{"--policy", policy, "--redis", "redis://127.0.0.1", "--prefix", "{}:"}, []string{"an empty hash tag"}},
		"a short secret":                 {[]string{"WEBLIMIT_RESERVATION_SECRETS=abc"}, []string{"--policy", policy}, []string{"WEBLIMIT_RESERVATION_SECRETS: number 1 has less than 32 bytes"}},
		"no network":                     {nil, []string{"--policy", policy, "--gateway-proxies", "10.0.0.1"}, []string{`"10.0.0.1" is no network such as 10.0.0.0/8`}},
		"a policy in PostgreSQL without": {nil, []string{"--policy", "postgres:limits"}, []string{"--policy postgres:NAME needs --postgres"}},
		"no control plane":               {nil, []string{"--envoy-config", "xds:127.0.0.1:1", "--envoy-xds-wait", "1ms"}, []string{`weblimitd: envoy: no configuration from 127.0.0.1:1 for the node "envoy-ratelimit"`}},
		"a control plane without a port": {nil, []string{"--envoy-config", "xds:envoy-gateway"}, []string{`--envoy-config: "xds:envoy-gateway" must be xds:HOST:PORT, such as xds:envoy-gateway:18001`}},
		"a folder and its settings":      {nil, []string{"--envoy-config", envoyFolder(t), "--envoy-xds-tls"}, []string{"--envoy-xds-tls needs --envoy-config xds:HOST:PORT"}},
		"headers for nobody":             {[]string{"WEBLIMIT_ENVOY_XDS_HEADERS=a:b"}, []string{"--envoy-config", envoyFolder(t)}, []string{"WEBLIMIT_ENVOY_XDS_HEADERS needs --envoy-config xds:HOST:PORT"}},
		"headers that are none":          {[]string{"WEBLIMIT_ENVOY_XDS_HEADERS=a:b,s3cret"}, []string{"--envoy-config", "xds:127.0.0.1:1"}, []string{"WEBLIMIT_ENVOY_XDS_HEADERS: number 2 must be name:value"}},
		"a header twice":                 {[]string{"WEBLIMIT_ENVOY_XDS_HEADERS=a:b"}, []string{"--envoy-config", "xds:127.0.0.1:1", "--envoy-xds-headers-file", write(t, "h", "\nA: c")}, []string{"h:2: a line must be name:value, and each name must be there once"}},
		"a name that no header has":      {[]string{"WEBLIMIT_ENVOY_XDS_HEADERS=a b:c"}, []string{"--envoy-config", "xds:127.0.0.1:1"}, []string{`"a b" is no name of a header`}},
		"metadata without a value":       {nil, []string{"--envoy-config", "xds:127.0.0.1:1", "--envoy-xds-node-metadata", "zone"}, []string{`--envoy-xds-node-metadata: "zone" must be name=value`}},
		"TLS that is off":                {nil, []string{"--envoy-config", "xds:127.0.0.1:1", "--envoy-xds-cacert", pem.ca}, []string{"--envoy-xds-cacert does nothing without --envoy-xds-tls"}},
		"half of a certificate":          {nil, []string{"--envoy-config", "xds:127.0.0.1:1", "--envoy-xds-tls", "--envoy-xds-cert", pem.cert}, []string{"--envoy-xds-cert and --envoy-xds-key belong together"}},
		"pauses that shrink":             {nil, []string{"--envoy-config", "xds:127.0.0.1:1", "--envoy-xds-max-retry", "100ms"}, []string{"--envoy-xds-max-retry is 100ms, and --envoy-xds-retry more: 1s"}},
		"a secret for the log":           {[]string{"WEBLIMIT_LOG_SECRET=abc"}, []string{"--policy", policy}, []string{"WEBLIMIT_LOG_SECRET", "at least 16 bytes"}},
		"everybody on the network":       {nil, []string{"--policy", policy, "--listen", "0.0.0.0:0", "--admin-listen", "off"}, []string{"everybody on the network could use up the quotas", "--insecure-listen"}},
		"a socket that systemd has not":  {nil, []string{"--policy", policy, "--listen", "systemd:data", "--admin-listen", "off"}, []string{"systemd has passed no socket", "FileDescriptorName=data"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checked := func() (code int, out string) { return inside(c.env, append([]string{"--check"}, c.args...)...) }
			if strings.Contains(name, "network") || strings.Contains(name, "systemd") { // seen by who listens
				checked = func() (code int, out string) { return run(t, c.env, c.args...) }
			}
			code, out := checked()
			if code == 0 {
				t.Errorf("exit code 0: %s", out)
			}
			wants(t, out, c.want...)
			for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
				if !strings.HasPrefix(line, "weblimitd: ") || strings.Contains(line, "weblimitd: weblimit") {
					t.Errorf("a line is %q", line)
				}
			}
		})
	}
}

// What Kubernetes sets for a Service named weblimit, and what the command weblimit reads, is no mistake.
func TestVariablesOfOthers(t *testing.T) {
	t.Parallel()
	policy := write(t, "limits.yaml", onePolicy("1", 5))
	code, out := inside([]string{
		"WEBLIMIT_SERVICE_HOST=10.0.0.1", "WEBLIMIT_SERVICE_PORT=80", "WEBLIMIT_SERVICE_PORT_HTTP=80", "WEBLIMIT_PORT=tcp://10.0.0.1:80",
		"WEBLIMIT_PORT_80_TCP=tcp://10.0.0.1:80", "WEBLIMIT_PORT_80_TCP_PROTO=tcp", "WEBLIMIT_ADMIN_SERVICE_HOST=10.0.0.2",
		"WEBLIMIT_URL=https://x", "WEBLIMIT_PASSWORD=y", "WEBLIMIT_LISTEN=",
	}, "--check", "--policy", policy)
	if code != 0 {
		t.Error(out)
	}
}

// All variables that the command's code names are its own, or mean the same here.
func TestVariablesOfTheCommand(t *testing.T) {
	t.Parallel()
	both := []string{"WEBLIMIT_POLICY"}
	connections := regexp.MustCompile(`^WEBLIMIT_(PREFIX|REDIS.*|POSTGRES.*)$`) // of internal/redisclient and internal/settings
	found := map[string]bool{}
	for _, file := range must.Get(filepath.Glob("../weblimit/*.go"))(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, name := range regexp.MustCompile(`WEBLIMIT_[A-Z_]+`).FindAllString(string(must.Get(os.ReadFile(file))(t)), -1) {
			found[name] = true
		}
		for _, name := range regexp.MustCompile(`\.(?:Add|Secret|URL)\("([a-z-]+)"`).FindAllStringSubmatch(string(must.Get(os.ReadFile(file))(t)), -1) {
			found[settings.Variable(name[1])] = true
		}
	}
	check.Equal(t, "the command has variables", len(found) > 12, true)
	known := help(t)
	var env []string
	for name := range found {
		if connections.MatchString(name) {
			continue
		}
		switch flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "WEBLIMIT_"), "_", "-")) + " "; {
		case !strings.Contains(known, flag):
			env = append(env, name+"=x")
		case !slices.Contains(both, name):
			t.Errorf("both programs have %s: does it mean the same? Then it belongs to this test's list", name)
		}
	}
	if code, out := inside(env, "--check", "--policy", write(t, "limits.yaml", onePolicy("1", 5))); code != 0 {
		t.Error(out)
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if code, out := run(t, nil, args...); code != 0 || !regexp.MustCompile(`^weblimitd v\d+\.\d+\.\d+ go1\.\d+`).MatchString(out) {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
	wants(t, help(t), "--policy", "WEBLIMIT_TOKENS", "SIGHUP")
}

// The binary needs nothing of the system that it runs on.
func TestTheBinaryIsStatic(t *testing.T) {
	t.Parallel()
	race.Skip(t)
	static := filepath.Join(t.TempDir(), "weblimitd")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", static, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text := must.Get(os.ReadFile(static))(t); strings.Contains(string(text[:4096]), "ld-linux") {
		t.Error("it names an interpreter")
	}
}

// Secrets are in no flag, and where somebody puts one, the message does not repeat it.
func TestSecretsAreNotRepeated(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-s3cr3t-s3cr3t"
	policy := write(t, "limits.yaml", onePolicy("1", 5))
	names := secretLine.FindAllStringSubmatch(help(t), -1)
	if len(names) < 4 {
		t.Fatalf("%d secrets in the help", len(names))
	}
	for _, found := range names {
		name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(found[1], "WEBLIMIT_"), "_", "-"))
		for _, args := range [][]string{
			{"--" + name, secret},
			{"--" + name + "=" + secret},
			{"-" + name + "=" + secret, "--" + name, secret},
			{"--config", write(t, "c", name+": "+secret)},
		} {
			code, out := inside(nil, append(args, "--check", "--policy", policy)...)
			if code == 0 || strings.Contains(out, secret) || !strings.Contains(out, "set "+found[1]) && !strings.Contains(out, "two dashes: --"+name) {
				t.Errorf("%s: %d %s", name, code, out)
			}
		}
	}
	for _, url := range []string{"redis://:" + secret + "@h:1", "redis://:" + secret + "%zz@h", "redis://:" + secret + "/x@h:p", "postgres://h/d?password=" + secret, "http://u:" + secret + "@h", "postgres://u:" + secret + "@h:x/d"} {
		for _, c := range []struct{ env, args []string }{
			{[]string{"WEBLIMIT_REDIS=" + url}, nil},
			{nil, []string{"--redis=" + url}},
			{[]string{"WEBLIMIT_POSTGRES=" + url, "PGCONNECT_TIMEOUT=1"}, nil},
			{nil, []string{"--postgres=" + url}},
		} {
			_, out := inside(c.env, append(c.args, "--check", "--policy", policy)...)
			if strings.Contains(out, secret) {
				t.Errorf("%s: %s", url, out)
			}
		}
	}
}
