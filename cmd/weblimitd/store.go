package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/settings"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/redisclient"
	"github.com/weblimit/weblimit/metrics/top"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/pgsource"
	"github.com/weblimit/weblimit/policy/redissource"
)

// backend is where limits are counted.
type backend struct {
	kind     string // "memory", "redis", "postgres"
	store    core.Store
	exchange top.Exchange                    // nil if instances don't see each other
	redis    redis.UniversalClient           // nil for others
	postgres *pgxpool.Pool                   // nil for others
	ping     func(ctx context.Context) error // nil if nothing can be away
	close    func()
}

// quiet drops what go-redis logs: the store's events have each error, by class.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// redisTimeout is how long Redis may take for what is no check; checks have the policy's timeout.
const redisTimeout = 3 * time.Second

// openBackend returns the store. It does not connect to Redis: the service starts while that is away.
func (o *options) openBackend(ctx context.Context) (*backend, error) {
	switch {
	case o.redis != "" && o.postgres != "":
		return nil, errors.New("--redis and --postgres exclude each other")
	case o.redis != "":
		return o.openRedis()
	case o.postgres != "":
		return o.openPostgres(ctx)
	}
	return &backend{kind: "memory", store: core.NewMemory(), close: func() {}}, nil
}

func (o *options) openRedis() (*backend, error) {
	u, err := readURL("redis", string(o.redis), "redis", "rediss", "unix")
	if err != nil {
		return nil, err
	}
	if o.redisCluster && o.redisMaster != "" {
		return nil, errors.New("--redis-cluster and --redis-sentinel-master exclude each other")
	}
	s := redisclient.Server{
		URL: u, User: u.User.Username(), Cluster: bool(o.redisCluster), Master: string(o.redisMaster),
		SentinelUser: string(o.redisSentinelUser), Timeout: redisTimeout, PoolSize: o.redisPool.N,
	}
	if o.redisUser != "" {
		s.User = string(o.redisUser)
	}
	inURL, _ := u.User.Password()
	if s.Password, err = onePassword("redis", inURL, o.redisPassword, o.redisPasswordFile); err != nil {
		return nil, err
	}
	if s.SentinelPassword, err = onePassword("redis-sentinel", "", o.redisSentinelPassword, o.redisSentinelPassFile); err != nil {
		return nil, err
	}
	if s.User != "" && s.Password == "" {
		return nil, errors.New("--redis-user: there is a user and no password: set WEBLIMIT_REDIS_PASSWORD or --redis-password-file")
	}
	if s.TLS, err = o.redisTLS(u.Scheme); err != nil {
		return nil, err
	}
	redis.SetLogger(quiet{})
	client, err := redisclient.New(s)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	if strings.Contains(string(o.prefix), "{}") {
		_ = client.Close()
		return nil, errors.New("--prefix: an empty hash tag would spread a client's keys over a Cluster")
	}
	store := redisstore.New(client, redisstore.Config{Prefix: string(o.prefix)})
	return &backend{
		kind: "redis", store: store, exchange: store.Exchange(), redis: client,
		ping:  func(ctx context.Context) error { return pingRedis(ctx, client) },
		close: func() { _ = client.Close() },
	}, nil
}

// pingRedis asks all masters of a Cluster: the service needs each.
func pingRedis(ctx context.Context, client redis.UniversalClient) error {
	if c, ok := client.(*redis.ClusterClient); ok {
		return c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() })
	}
	return client.Ping(ctx).Err()
}

// published returns the source of a setting that names a file which is published in the store, as
// redis:KEY or postgres:NAME. It returns nil if the setting names a file or a folder of this machine.
func (b *backend) published(setting, text string) (policy.Source, error) {
	if key, ok := strings.CutPrefix(text, "redis:"); ok {
		if b.redis == nil || key == "" {
			return nil, fmt.Errorf("--%s redis:KEY needs --redis, where the file is published under the key", setting)
		}
		return redissource.New(b.redis, key), nil
	}
	if name, ok := strings.CutPrefix(text, "postgres:"); ok {
		if b.postgres == nil || name == "" {
			return nil, fmt.Errorf("--%s postgres:NAME needs --postgres, where the file is published under the name", setting)
		}
		return pgsource.New(b.postgres, name), nil
	}
	return nil, nil
}

func (o *options) redisTLS(scheme string) (*tls.Config, error) {
	if (o.redisCert == "") != (o.redisKey == "") {
		return nil, errors.New("--redis-cert and --redis-key belong together")
	}
	if scheme != "rediss" && (o.redisCA != "" || o.redisCert != "") {
		return nil, errors.New("--redis-cacert and --redis-cert are for rediss://")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.redisCA != "" {
		text, err := readOnce(string(o.redisCA))
		if err != nil {
			return nil, fmt.Errorf("--redis-cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--redis-cacert: %s has no certificate in PEM", o.redisCA)
		}
	}
	if o.redisCert != "" {
		if _, err := tls.LoadX509KeyPair(string(o.redisCert), string(o.redisKey)); err != nil {
			return nil, fmt.Errorf("--redis-cert and --redis-key: %w", err)
		}
		// Read again for each connection, so that a certificate can be renewed.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(string(o.redisCert), string(o.redisKey))
			return &pair, err
		}
	}
	return config, nil
}

func (o *options) openPostgres(ctx context.Context) (*backend, error) {
	if _, err := readURL("postgres", string(o.postgres), "postgres", "postgresql"); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(string(o.postgres))
	if err != nil {
		return nil, errors.New("--postgres can't be used: " + redactParse(err, string(o.postgres)))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("--postgres: %w", err)
	}
	schema, err := schemaOf(o.postgresSchema)
	if err != nil {
		pool.Close()
		return nil, err
	}
	if !o.check { // which changes nothing, and needs no database
		asked, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := pgstore.Migrate(asked, pool, pgstore.Config{Schema: schema}); err != nil {
			pool.Close()
			return nil, fmt.Errorf("--postgres: %w", err)
		}
	}
	store := pgstore.New(pool, pgstore.Config{Schema: schema})
	return &backend{kind: "postgres", store: store, postgres: pool, ping: pool.Ping, close: pool.Close}, nil
}

// schemaOf checks the name of a schema, of which pgstore panics.
func schemaOf(name settings.String) (string, error) {
	for i := range len(name) {
		c := name[i]
		if letter := c >= 'a' && c <= 'z'; !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return "", fmt.Errorf("--postgres-schema: %q must have lower-case letters, digits and underscores, and begin with a letter", name)
		}
	}
	return string(name), nil
}

// redactParse returns the reason of an error whose text may repeat a URL with a password.
func redactParse(err error, text string) string {
	if u, parseErr := url.Parse(text); parseErr == nil {
		if password, has := u.User.Password(); has && strings.Contains(err.Error(), password) {
			return "see its format"
		}
	}
	return err.Error()
}

// readURL reads a URL. Its errors don't repeat it: it may hold a password.
func readURL(setting, text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		// The parser's error could repeat a part of a password.
		return nil, fmt.Errorf("--%s is no URL; letters such as / and @ in a password must be escaped: %%2F, %%40", setting)
	}
	known := false
	for _, s := range schemes {
		known = known || u.Scheme == s
	}
	if !known || u.Opaque != "" || u.Scheme == "unix" && u.Path == "" || u.Scheme != "unix" && !strings.HasPrefix(u.Scheme, "postgres") && u.Host == "" {
		return nil, fmt.Errorf("--%s must begin with %s", setting, strings.Join(schemes, ":// or ")+"://")
	}
	return u, nil
}

// onePassword returns the password of the one place that has it.
func onePassword(name, inURL string, inEnv, file settings.String) (string, error) {
	found := 0
	for _, there := range []bool{inURL != "", inEnv != "", file != ""} {
		if there {
			found++
		}
	}
	if found > 1 {
		return "", fmt.Errorf("--%s: the password is in several places: choose one of the URL, the environment and --%s-password-file", name, name)
	}
	if file == "" {
		return inURL + string(inEnv), nil
	}
	text, err := readOnce(string(file))
	if err != nil {
		return "", fmt.Errorf("--%s-password-file: %w", name, err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" || len(password) > 4096 || strings.ContainsAny(password, "\r\n") {
		return "", fmt.Errorf("--%s-password-file: the file must hold one line, the password", name)
	}
	return password, nil
}
