package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/redisclient"
	"github.com/weblimit/weblimit/internal/settings"
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

	region *regionOptions // nil if the limits are of one region
}

// storeOptions are the settings of the store.
type storeOptions struct {
	redis          redisclient.Settings
	redisPool      settings.Int
	postgres       settings.Postgres
	postgresSchema settings.String
	replicas       settings.Int
}

func (o *storeOptions) add(g settings.Group, set *settings.Set) {
	o.redis.Add(g, set)
	o.redisPool = settings.Int{Min: 1, Max: 10_000}
	g.Add("redis-pool-size", &o.redisPool, strconv.Itoa(max(10, 4*runtime.GOMAXPROCS(0))), "connections per Redis server").Needs("redis")
	o.postgres.Add(g, "to count in PostgreSQL")
	g.Add("postgres-schema", &o.postgresSchema, pgstore.DefaultSchema, "schema of the tables in PostgreSQL").Needs("postgres")
	o.replicas = settings.Int{Min: 1, Max: 100_000}
	g.Add("replicas", &o.replicas, "1", "processes that share the store: each grants its share while the store is away").Needs("redis", "postgres")
}

// quiet drops what go-redis logs: the store's events have each error, by class.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// redisTimeout is how long Redis may take for what is no check; checks have the policy's timeout.
const redisTimeout = 3 * time.Second

// openBackend returns the store. It does not connect to Redis: the service starts while that is away.
func (o *options) openBackend(ctx context.Context) (*backend, error) {
	b, err := o.openOwn(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.openRegion(b); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// openOwn returns the store of the service itself, or of its region.
func (o *options) openOwn(ctx context.Context) (*backend, error) {
	switch {
	case o.redis.URL != "" && o.postgres.URL != "":
		return nil, errors.New("--redis and --postgres exclude each other")
	case o.redis.URL != "":
		return o.openRedis()
	case o.postgres.URL != "":
		return o.openPostgres(ctx)
	}
	return &backend{kind: "memory", store: core.NewMemory(), close: func() {}}, nil
}

func (o *options) openRedis() (*backend, error) {
	server, err := o.redis.Server("--redis", string(o.redis.URL), nil)
	if err != nil {
		return nil, err
	}
	if server.User != "" && server.Password == "" {
		return nil, o.redis.NoPassword()
	}
	server.Timeout, server.PoolSize = redisTimeout, o.redisPool.N
	redis.SetLogger(quiet{})
	client, err := redisclient.New(server)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	store := redisstore.New(client, redisstore.Config{Prefix: string(o.redis.Prefix)})
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

// openPostgres connects, and makes the tables or brings them up to date: unlike Redis, PostgreSQL has to answer at the start. The
// error of an address that can't be read does not repeat it, since it may hold a password.
func (o *options) openPostgres(ctx context.Context) (*backend, error) {
	text := string(o.postgres.URL)
	password, err := o.postgres.Password("--postgres", text, nil)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, errors.New("--postgres can't be used: " + redactParse(err, text))
	}
	if password != "" {
		config.ConnConfig.Password = password
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
