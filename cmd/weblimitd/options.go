package main

import (
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/listen"
	"github.com/weblimit/weblimit/cmd/weblimitd/internal/settings"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/redisstore"
)

// options are the settings of the service. See docs/service/weblimitd.md.
type options struct {
	set       *settings.Set
	variables map[string]string // of the environment

	config     settings.String
	policy     settings.String
	policyKeep settings.String
	endMark    settings.Bool

	listen, adminListen, grpcListen listen.Address
	insecureListen                  settings.Bool
	socketMode                      mode
	socketGroup, adminSocketGroup   settings.String

	redis                    settings.String
	redisCluster             settings.Bool
	redisMaster              settings.String
	redisUser                settings.String
	redisPassword            settings.String
	redisPasswordFile        settings.String
	redisSentinelUser        settings.String
	redisSentinelPassword    settings.String
	redisSentinelPassFile    settings.String
	redisCA                  settings.String
	redisCert, redisKey      settings.String
	redisPool                settings.Int
	prefix                   settings.String
	postgres, postgresSchema settings.String
	replicas                 settings.Int

	tokens, tokensFile                         settings.String
	tlsCert, tlsKey, tlsClientCA               settings.String
	tlsClientNames                             settings.List
	adminUsers, adminUsersFile                 settings.String
	adminHosts                                 settings.List
	adminTLSCert, adminTLSKey, adminTLSClients settings.String
	adminTLSClientNames                        settings.List

	maxConnections, maxInFlight             settings.Int
	headerTimeout, readTimeout, idleTimeout settings.Duration
	grpcAge                                 settings.Duration
	memoryLimit                             memoryLimit

	drainDelay, drainTimeout settings.Duration
	readyInOutage            settings.Bool

	logFormat, logLevel settings.Choice
	logDenials          settings.Bool
	logSecret           settings.String
	instance            settings.String
	pprof               settings.Bool

	reservationSecrets     settings.String
	reservationSecretsFile settings.String
	gatewayTrusted         prefixes
	gatewayProxies         prefixes

	envoyConfig                                       settings.String
	envoyOutage, envoyOverdraw, envoyAlgorithm        settings.Choice
	envoyIndependent, envoyMergeDomains               settings.Bool
	envoyShadow, envoyQuota, envoyHeaders, envoyMetas settings.Bool
	envoyLimit, envoyRemaining, envoyReset            settings.String // names of headers
	envoyNearLimit                                    settings.Float
	envoyTimeout                                      settings.Duration
	envoyDescriptors, envoyEntries, envoySeries       settings.Int

	check, version bool
}

// newOptions returns the settings with their defaults.
func newOptions() *options {
	o := &options{set: &settings.Set{Prefix: "WEBLIMIT_", Foreign: isForeign}}
	add := o.set.Add
	group := ""
	plain := func(name string, value settings.Value, byDefault, help string) {
		add(settings.Setting{Name: name, Group: group, Help: help, Value: value, Default: byDefault})
	}
	secret := func(name string, value settings.Value, help string) {
		add(settings.Setting{Name: name, Group: group, Help: help, Value: value, EnvOnly: true})
	}

	group = "Policy"
	plain("config", &o.config, "", "settings file in YAML, with the names of these flags")
	plain("policy", &o.policy, "", "policy file; redis:KEY or postgres:NAME for one that is published there")
	plain("policy-keep", &o.policyKeep, "", "file in which the last good policy is kept, for a start while the other can't be read")
	plain("end-mark", &o.endMark, "false", "refuse a file in YAML, of policies or of Envoy, that does not end with a line \"...\", since it may be cut off")

	group = "Listeners: host:port, unix:/path, systemd:NAME or off"
	plain("listen", &o.listen, "127.0.0.1:9180", "checks, for callers")
	plain("admin-listen", &o.adminListen, "127.0.0.1:9181", "health, metrics, page, reload and roll-back, for operators")
	plain("grpc-listen", &o.grpcListen, "127.0.0.1:9182", "gRPC, for Envoy; only with --envoy-config")
	plain("insecure-listen", &o.insecureListen, "false", "serve callers on the network who have neither a token nor a certificate, and operators without TLS")
	plain("socket-mode", &o.socketMode, "0660", "permissions of unix sockets")
	plain("socket-group", &o.socketGroup, "", "group of the unix sockets for callers, such as that of a gateway")
	plain("admin-socket-group", &o.adminSocketGroup, "", "group of the unix socket for operators: its members may do everything")

	group = "Store: memory unless one is named"
	url := func(name string, value settings.Value, help string) {
		add(settings.Setting{Name: name, Group: group, Help: help, Value: value, Redact: redactURL, RefuseFlag: refusePassword})
	}
	url("redis", &o.redis, "redis://host:6379/0, rediss:// for TLS, unix:///path; further nodes as ?addr=host:port")
	plain("redis-cluster", &o.redisCluster, "false", "the Redis is a Cluster")
	plain("redis-sentinel-master", &o.redisMaster, "", "the addresses are those of Sentinels, which know the master of this name")
	plain("redis-user", &o.redisUser, "", "user name for Redis")
	secret("redis-password", &o.redisPassword, "password for Redis")
	plain("redis-password-file", &o.redisPasswordFile, "", "file with the password for Redis")
	plain("redis-sentinel-user", &o.redisSentinelUser, "", "user name for Sentinels")
	secret("redis-sentinel-password", &o.redisSentinelPassword, "password for Sentinels")
	plain("redis-sentinel-password-file", &o.redisSentinelPassFile, "", "file with the password for Sentinels")
	plain("redis-cacert", &o.redisCA, "", "PEM file of certificate authorities to trust instead of the system's")
	plain("redis-cert", &o.redisCert, "", "PEM file with a client certificate")
	plain("redis-key", &o.redisKey, "", "PEM file with its key")
	o.redisPool = settings.Int{Min: 1, Max: 10_000}
	plain("redis-pool-size", &o.redisPool, strconv.Itoa(max(10, 4*runtime.GOMAXPROCS(0))), "connections per Redis server")
	plain("prefix", &o.prefix, redisstore.DefaultPrefix, "what keys in Redis begin with")
	url("postgres", &o.postgres, "postgres://user@host/database, to count in PostgreSQL")
	plain("postgres-schema", &o.postgresSchema, pgstore.DefaultSchema, "schema of the tables in PostgreSQL")
	o.replicas = settings.Int{Min: 1, Max: 100_000}
	plain("replicas", &o.replicas, "1", "processes that share the store: each grants its share while the store is away")

	group = "Callers"
	secret("tokens", &o.tokens, "bearer tokens, with commas between them")
	plain("tokens-file", &o.tokensFile, "", "file of bearer tokens, one per line")
	plain("tls-cert", &o.tlsCert, "", "PEM file with the certificate of the data and gRPC listeners")
	plain("tls-key", &o.tlsKey, "", "PEM file with its key")
	plain("tls-client-ca", &o.tlsClientCA, "", "PEM file of authorities: callers need a certificate of them")
	plain("tls-client-names", &o.tlsClientNames, "", "names that a caller's certificate has one of")

	secret("reservation-secrets", &o.reservationSecrets, "secrets that seal reservations, of 32 bytes or more with commas between them; all instances need the same")
	plain("reservation-secrets-file", &o.reservationSecretsFile, "", "file of these, one per line")

	group = "Gateways"
	plain("gateway-trusted", &o.gatewayTrusted, "", "networks of gateways, if not all callers are believed as such")
	plain("gateway-proxies", &o.gatewayProxies, "", "networks of proxies in front of a gateway that appends to X-Forwarded-For")

	group = "Envoy, by the files of envoyproxy/ratelimit"
	plain("envoy-config", &o.envoyConfig, "", "folder of configuration files; redis:KEY or postgres:NAME for one file that is published there")
	o.envoyOutage, o.envoyOverdraw = settings.Choice{Of: []string{"local", "allow", "deny"}}, settings.Choice{Of: []string{"stated", "never", "always"}}
	o.envoyAlgorithm = settings.Choice{Of: envoyAlgorithms()}
	plain("envoy-outage", &o.envoyOutage, "local", "what is answered while the store is away: local, allow or deny")
	plain("envoy-independent", &o.envoyIndependent, "false", "charge each descriptor by itself, as envoyproxy/ratelimit does")
	plain("envoy-overdraw", &o.envoyOverdraw, "stated", "which hits are charged where they do not fit: stated, never or always")
	plain("envoy-algorithm", &o.envoyAlgorithm, "fixed_window", "how limits count: "+strings.Join(envoyAlgorithms(), ", "))
	plain("envoy-merge-domains", &o.envoyMergeDomains, "false", "several files may have limits of one domain")
	plain("envoy-shadow", &o.envoyShadow, "false", "answer OK to every request")
	plain("envoy-quota", &o.envoyQuota, "false", "deny a request if all of its descriptors are over their limits")
	plain("envoy-limit-headers", &o.envoyHeaders, "false", "have responses carry RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset")
	plain("envoy-limit-header", &o.envoyLimit, "RateLimit-Limit", "name of the header that has the limit, with --envoy-limit-headers")
	plain("envoy-remaining-header", &o.envoyRemaining, "RateLimit-Remaining", "name of the header that has what remains")
	plain("envoy-reset-header", &o.envoyReset, "RateLimit-Reset", "name of the header that has the seconds until then")
	plain("envoy-dynamic-metadata", &o.envoyMetas, "false", "have responses carry descriptors and metadata")
	o.envoyNearLimit = settings.Float{Max: 1}
	plain("envoy-near-limit", &o.envoyNearLimit, "0.8", "the part of a limit above which statistics count hits as near it")
	o.envoyTimeout = settings.Duration{Min: time.Millisecond, Max: time.Minute}
	plain("envoy-timeout", &o.envoyTimeout, "100ms", "how long the store may take, if the caller's deadline leaves as much")
	o.envoyDescriptors, o.envoyEntries, o.envoySeries = settings.Int{Min: 1, Max: 255}, settings.Int{Min: 1, Max: 1000}, settings.Int{Min: 1, Max: 1_000_000}
	plain("envoy-max-descriptors", &o.envoyDescriptors, "100", "descriptors of a request; one with more is an error")
	plain("envoy-max-entries", &o.envoyEntries, "50", "entries of a descriptor; a request with more is an error")
	plain("envoy-max-series", &o.envoySeries, "10000", "names that statistics have; hits of further ones are added up")

	group = "Operators"
	secret("admin-users", &o.adminUsers, "name:password:read or name:password:act, with commas between them")
	plain("admin-users-file", &o.adminUsersFile, "", "file of these, one per line")
	plain("admin-hosts", &o.adminHosts, "", "names in a browser's address bar under which the page is reached")
	plain("admin-tls-cert", &o.adminTLSCert, "", "PEM file with the certificate of the admin listener")
	plain("admin-tls-key", &o.adminTLSKey, "", "PEM file with its key")
	plain("admin-tls-client-ca", &o.adminTLSClients, "", "PEM file of authorities: operators need a certificate of them")
	plain("admin-tls-client-names", &o.adminTLSClientNames, "", "names that an operator's certificate has one of")
	plain("pprof", &o.pprof, "false", "serve profiles at /debug/pprof/ to operators who may act")

	group = "Bounds"
	o.maxConnections = settings.Int{Min: 1, Max: 1_000_000}
	o.maxInFlight = settings.Int{Min: 1, Max: 1_000_000}
	plain("max-connections", &o.maxConnections, "16384", "open connections per listener; further ones are closed at once")
	plain("max-in-flight", &o.maxInFlight, "1024", "requests of callers at work; further ones get 503 or RESOURCE_EXHAUSTED")
	o.headerTimeout = settings.Duration{Min: 100 * time.Millisecond, Max: time.Minute}
	o.readTimeout = settings.Duration{Min: 100 * time.Millisecond, Max: 10 * time.Minute}
	o.idleTimeout = settings.Duration{Min: time.Second, Max: time.Hour}
	plain("header-timeout", &o.headerTimeout, "5s", "how long a caller may take to send a request's header")
	plain("read-timeout", &o.readTimeout, "10s", "how long a caller may take to send a request")
	plain("idle-timeout", &o.idleTimeout, "5m", "how long a connection without requests stays open")
	o.grpcAge = settings.Duration{Min: time.Second, Max: 365 * 24 * time.Hour}
	plain("grpc-max-age", &o.grpcAge, "30m", "how long a connection of gRPC lasts, more or less a tenth, so that callers find new instances")
	plain("memory-limit", &o.memoryLimit, "auto", "auto for 90% of the container's memory, off, or a size such as 512MiB; GOMEMLIMIT wins")

	group = "Operation"
	o.drainDelay = settings.Duration{Max: 10 * time.Minute}
	o.drainTimeout = settings.Duration{Min: 100 * time.Millisecond, Max: time.Hour}
	plain("drain-delay", &o.drainDelay, "5s", "how long to serve on after SIGTERM while not ready, so that load balancers notice")
	plain("drain-timeout", &o.drainTimeout, "20s", "how long requests under way may then take")
	plain("ready-in-outage", &o.readyInOutage, "true", "stay ready while the store is away, and decide by the policy's on_outage")
	o.logFormat, o.logLevel = settings.Choice{Of: []string{"text", "json"}}, settings.Choice{Of: []string{"debug", "info", "warn", "error"}}
	plain("log-format", &o.logFormat, "text", "text or json")
	plain("log-level", &o.logLevel, "info", "debug, info, warn or error")
	plain("log-denials", &o.logDenials, "true", "log denials, at most one line per limit and second")
	secret("log-secret", &o.logSecret, "secret by which keys are hashed in the log, so that all instances log the same hash")
	plain("instance", &o.instance, "", "name of this process on the page; by default the host's with random digits")
	return o
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

// refusePassword keeps passwords out of flags, which everybody on the machine can read.
func refusePassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "" // said elsewhere
	}
	if _, has := u.User.Password(); has || strings.Contains(strings.ToLower(u.RawQuery), "pass") {
		return "has a password, which everybody on this machine could read in the list of processes: set it in the environment or in a file"
	}
	return ""
}

// ofTheCommand are variables of the command weblimit, which may be set beside. Those that both have mean the
// same.
var ofTheCommand = []string{
	"WEBLIMIT_URL", "WEBLIMIT_USER", "WEBLIMIT_PASSWORD", "WEBLIMIT_PASSWORD_FILE", "WEBLIMIT_CACERT",
	"WEBLIMIT_SENTINEL_PASSWORD", "WEBLIMIT_DATABASE_URL", "WEBLIMIT_DATABASE_PASSWORD_FILE", "WEBLIMIT_SCHEMA",
	"WEBLIMIT_POLICY_TO", "WEBLIMIT_POLICY_NAME", "WEBLIMIT_BY",
}

// ofKubernetes are variables that Kubernetes sets in each container for a Service named weblimit, or
// weblimit-something.
var ofKubernetes = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|^WEBLIMIT_(.*_)?PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

func isForeign(variable string) bool {
	return slices.Contains(ofTheCommand, variable) || ofKubernetes.MatchString(variable)
}

// mode is the permissions of a file, in octal digits.
type mode struct{ fs.FileMode }

// Set implements settings.Value.
func (m *mode) Set(text string) error {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q must be octal digits such as 0660", text)
	}
	if n&0o002 != 0 {
		return fmt.Errorf("%q would let everybody on this machine in", text)
	}
	m.FileMode = fs.FileMode(n)
	return nil
}

// read reads all settings.
func (o *options) read(args, env []string) (rest []string, err error) {
	var others []string
	for _, arg := range args { // what is no setting
		switch arg {
		case "--check", "-check":
			o.check = true
		case "--version", "-version":
			o.version = true
		default:
			others = append(others, arg)
		}
	}
	o.variables = make(map[string]string, len(env))
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		o.variables[name] = value
	}
	return o.set.Read(others, env, "config", readOnce)
}

// usage is the text of --help.
func (o *options) usage() string {
	var b strings.Builder
	b.WriteString(`weblimitd decides rate limits and quotas for other programs, by a policy file.

  weblimitd --policy limits.yaml    serve, counting in memory
  weblimitd --policy limits.yaml --redis redis://localhost:6379
  weblimitd --envoy-config config/  serve Envoy, by the files of envoyproxy/ratelimit
  weblimitd --check …               check settings, policy, certificates and tokens, and exit
  weblimitd healthcheck             exit 0 if the instance here is ready, for containers
  weblimitd status                  what the instance here decides by
  weblimitd reload                  read policy, certificates and tokens again
  weblimitd rollback                go back to the policy before
  weblimitd publish edge.yaml       check a file of Envoy, and publish it where --envoy-config redis:KEY says
  weblimitd version

The other commands find the instance by the same settings. Each setting is a flag, a variable such as
WEBLIMIT_ADMIN_LISTEN, or a line such as "admin-listen: 127.0.0.1:9181" in the file of --config. A flag
wins over a variable, a variable over the file.
`)
	group := ""
	for _, s := range o.set.All() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n%s\n", group)
		}
		name := "--" + s.Name
		if s.EnvOnly {
			name = o.set.Variable(s.Name)
		}
		fmt.Fprintf(&b, "  %-34s %s", name, s.Help)
		if s.Default != "" && s.Name != "redis-pool-size" {
			fmt.Fprintf(&b, " (%s)", s.Default)
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nSignals: SIGTERM drains and ends, a second one ends at once; SIGHUP reads everything again.\nhttps://github.com/weblimit/weblimit/blob/main/docs/service/weblimitd.md\n")
	return b.String()
}

// prefixes are networks, with commas between them.
type prefixes []netip.Prefix

// Set implements settings.Value.
func (p *prefixes) Set(text string) error {
	*p = nil
	for part := range strings.SplitSeq(text, ",") {
		network, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%q is no network such as 10.0.0.0/8", part)
		}
		*p = append(*p, network)
	}
	return nil
}

// memoryLimit is the text of the setting memory-limit.
type memoryLimit struct {
	auto  bool
	bytes int64 // 0 for none
}

// Set implements settings.Value.
func (m *memoryLimit) Set(text string) error {
	*m = memoryLimit{}
	switch text {
	case "auto":
		m.auto = true
		return nil
	case "off":
		return nil
	}
	number, unit := text, int64(1)
	for _, u := range []struct {
		name string
		is   int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}} {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			number, unit = n, u.is
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit || n*unit < 16<<20 {
		return fmt.Errorf("%q must be auto, off, or a size of at least 16MiB, such as 512MiB", text)
	}
	m.bytes = n * unit
	return nil
}
