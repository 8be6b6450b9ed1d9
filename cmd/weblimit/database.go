package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/quota"
)

// database are the flags of PostgreSQL.
type database struct {
	url, passwordFile, schema string
}

// ledger is an attached book, and where it is.
type ledger struct {
	*quota.Book
	where string // PostgreSQL, for people
	redis string // the store, for people; "" for none
	close func()
}

// use says what a command needs.
type use struct{ writes, redis bool }

// open attaches to the book.
func (a *app) open(ctx context.Context, d *database, use use) (*ledger, error) {
	config, err := a.poolConfig(d)
	if err != nil {
		return nil, err
	}
	l := &ledger{where: fmt.Sprintf("PostgreSQL at %s/%s", config.ConnConfig.Host, config.ConnConfig.Database), close: func() {}}
	book := quota.Config{Timeout: a.timeout, Schema: cmp.Or(d.schema, a.env("WEBLIMIT_SCHEMA"))}
	if use.redis {
		t, err := a.redisTarget()
		if err != nil {
			return nil, err
		}
		security, err := a.tls()
		if err != nil {
			return nil, err
		}
		rdb, err := a.redisClient(t, security)
		if err != nil {
			return nil, err
		}
		s := redisstore.New(rdb, redisstore.Config{Prefix: a.keyPrefix(), DenialCache: redisstore.DenialCache{Disabled: true}})
		s.OnEvent(func(core.Event) {}) // each answer has its own error
		book.Store, l.redis, l.close = s, "Redis at "+t.redis.Redacted(), func() { _ = rdb.Close() }
	}
	if !use.writes {
		config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}
	pool, err := l.attach(ctx, a, config, book)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "08P01" && !use.writes {
		// PgBouncer knows few parameters.
		delete(config.ConnConfig.RuntimeParams, "default_transaction_read_only")
		pool, err = l.attach(ctx, a, config, book)
	}
	if err != nil {
		l.close()
		return nil, fmt.Errorf("%s: %w", l.where, err)
	}
	rest := l.close
	l.close = func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
		defer cancel()
		_ = l.Close(within) // what a repair has to write is written before
		pool.Close()
		rest()
	}
	return l, nil
}

func (l *ledger) attach(ctx context.Context, a *app, config *pgxpool.Config, book quota.Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, config.Copy())
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if l.Book, err = quota.Attach(within, pool, book); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// poolConfig reads flags and environment. Its errors don't repeat the URL, which may hold a password.
func (a *app) poolConfig(d *database) (*pgxpool.Config, error) {
	if a.timeout < minTimeout || a.timeout > maxTimeout {
		return nil, errTimeout(a.timeout)
	}
	text := cmp.Or(d.url, a.env("WEBLIMIT_DATABASE_URL"))
	if text == "" {
		return nil, usagef("nobody to ask: set --database-url (WEBLIMIT_DATABASE_URL) to the PostgreSQL of the application's quota.Book")
	}
	return a.poolConfigOf(urlSource{"--database-url", text, d.url != "", d.passwordFile, "WEBLIMIT_DATABASE_PASSWORD_FILE"})
}

// urlSource is the URL of a PostgreSQL, from a flag or its variable, and where its password is.
type urlSource struct {
	flag, text   string
	byFlag       bool
	passwordFile string // of a flag
	passwordEnv  string // the variable with another one
}

func (a *app) poolConfigOf(from urlSource) (*pgxpool.Config, error) {
	flag, text, byFlag := from.flag, from.text, from.byFlag
	u, err := readURL(flag, text, byFlag, "postgres", "postgresql")
	if err != nil {
		return nil, err
	}
	if q := u.Query(); byFlag && (q.Has("password") || q.Has("sslpassword")) {
		return nil, errPasswordShown(flag, passwordInstead(flag, u.Scheme))
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		var inner *pgconn.ParseConfigError
		if errors.As(err, &inner) && inner.Unwrap() != nil {
			err = inner.Unwrap()
		}
		return nil, usagef("%s: %w", flag, withoutURL(err))
	}
	file := cmp.Or(from.passwordFile, a.env(from.passwordEnv))
	if _, has := u.User.Password(); file != "" && (!has || from.passwordFile != "") {
		if config.ConnConfig.Password, err = a.readPassword(file); err != nil {
			return nil, err
		}
	}
	config.MaxConns = 2
	config.ConnConfig.ConnectTimeout = a.timeout
	config.ConnConfig.RuntimeParams["application_name"] = "weblimit"
	return config, nil
}

// withoutURL returns an error of parsing without the text that was parsed.
func withoutURL(err error) error {
	if inner := (*url.Error)(nil); errors.As(err, &inner) {
		return inner.Err
	}
	return err
}

// redisTarget is the Redis of a command that asks nothing else.
func (a *app) redisTarget() (*target, error) {
	if a.url != "" {
		return nil, usagef("this compares Redis with PostgreSQL, and asks no page: set --redis (WEBLIMIT_REDIS) instead of --url")
	}
	rdb := cmp.Or(a.redis, a.env("WEBLIMIT_REDIS"))
	if rdb == "" {
		return nil, usagef("this compares Redis with PostgreSQL: set --redis (WEBLIMIT_REDIS)")
	}
	u, err := readURL("--redis", rdb, a.redis != "", "redis", "rediss", "unix")
	if err != nil {
		return nil, err
	}
	t := &target{redis: u}
	return t, a.credentials(t)
}
