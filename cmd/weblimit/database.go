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
	"github.com/weblimit/weblimit/internal/redisclient"
	"github.com/weblimit/weblimit/quota"
)

// database are the flags of the book.
type database struct {
	schema string
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

// open attaches to the book. A command that only reads says so to PostgreSQL, where the connection can: a mistake of this
// program then writes nothing.
func (a *app) open(ctx context.Context, d *database, use use) (*ledger, error) {
	config, err := a.poolConfig()
	if err != nil {
		return nil, err
	}
	l := &ledger{where: fmt.Sprintf("PostgreSQL at %s/%s", config.ConnConfig.Host, config.ConnConfig.Database), close: func() {}}
	book := quota.Config{Timeout: a.timeout.Duration, Schema: cmp.Or(d.schema, a.env("WEBLIMIT_SCHEMA"))}
	if use.redis {
		server, err := a.redisOfBook()
		if err != nil {
			return nil, err
		}
		rdb, err := redisClient(server)
		if err != nil {
			return nil, err
		}
		s := redisstore.New(rdb, redisstore.Config{Prefix: a.keyPrefix(), DenialCache: redisstore.DenialCache{Disabled: true}})
		s.OnEvent(func(core.Event) {}) // each answer has its own error
		book.Store, l.redis, l.close = s, "Redis at "+server.URL.Redacted(), func() { _ = rdb.Close() }
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
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout.Duration)
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
	within, cancel := context.WithTimeout(ctx, a.timeout.Duration)
	defer cancel()
	if l.Book, err = quota.Attach(within, pool, book); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// poolConfig returns how to connect to the PostgreSQL of --postgres.
func (a *app) poolConfig() (*pgxpool.Config, error) {
	if a.postgres.URL == "" {
		return nil, usagef("nobody to ask: set --postgres (WEBLIMIT_POSTGRES) to the PostgreSQL of the application's quota.Book")
	}
	return a.poolConfigOf("--postgres", string(a.postgres.URL))
}

// poolConfigOf returns how to connect to a PostgreSQL. Its errors don't repeat the URL, which may hold a password.
func (a *app) poolConfigOf(flag, text string) (*pgxpool.Config, error) {
	if err := a.noFlags(ofPage, "an application's page, and PostgreSQL is asked: its flag is --postgres-password-file, and those of a Redis begin with --redis-"); err != nil {
		return nil, err
	}
	password, err := a.postgres.Password(flag, text, a.input)
	if err != nil {
		return nil, usageError{err}
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		var inner *pgconn.ParseConfigError
		if errors.As(err, &inner) && inner.Unwrap() != nil {
			err = inner.Unwrap()
		}
		return nil, usagef("%s: %w", flag, withoutURL(err))
	}
	if password != "" {
		config.ConnConfig.Password = password
	}
	config.MaxConns = 2
	config.ConnConfig.ConnectTimeout = a.timeout.Duration
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

// redisOfBook is the Redis of a command that compares it with PostgreSQL.
func (a *app) redisOfBook() (redisclient.Server, error) {
	if a.redis.URL == "" {
		return redisclient.Server{}, usagef("this compares Redis with PostgreSQL: set --redis (WEBLIMIT_REDIS)")
	}
	return a.redisServer("--redis", string(a.redis.URL))
}
