package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/internal/settings"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/pgsource"
	"github.com/weblimit/weblimit/policy/redissource"
)

// archiveFlags say where a fleet's policy file is.
type archiveFlags struct {
	to, name, schema string
}

func (f *archiveFlags) add(a *app, c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.to, "to", "", "where the fleet's policy file is: redis://host:6379/0, rediss://, unix:// or postgres://user@host/database ($WEBLIMIT_POLICY_TO, or what weblimitd decides by: $WEBLIMIT_POLICY)")
	flags.StringVar(&f.name, "name", "limits", "the key in Redis, or the name in PostgreSQL ($WEBLIMIT_POLICY_NAME)")
	flags.AddGoFlagSet(a.set.Flags(ofPostgres))
	flags.StringVar(&f.schema, "schema", "", "pgsource.Config.Schema of the application ("+pgsource.DefaultSchema+")")
}

// archive is where a fleet's policy file is.
type archive struct {
	policy.Archive
	where string // for people: `"limits" in Redis at redis://redis.example.com:6379`
	pool  *pgxpool.Pool
	close func()
}

// openArchive connects to where --to says.
func (a *app) openArchive(ctx context.Context, c *cobra.Command, f *archiveFlags) (*archive, error) {
	text, name := cmp.Or(f.to, a.env("WEBLIMIT_POLICY_TO")), f.name
	if !c.Flags().Changed("name") {
		name = cmp.Or(a.env("WEBLIMIT_POLICY_NAME"), name)
	}
	if text == "" {
		var err error
		if text, name, err = a.archiveOfTheService(name, c.Flags().Changed("name") || a.env("WEBLIMIT_POLICY_NAME") != ""); err != nil {
			return nil, err
		}
	}
	if name == "" {
		return nil, usagef("--name must not be empty")
	}
	if f.to != "" {
		if err := settings.RefusePassword("--to", f.to, "it in WEBLIMIT_POLICY_TO, or WEBLIMIT_REDIS_PASSWORD, PGPASSWORD or PGPASSFILE"); err != nil {
			return nil, usageError{err}
		}
	}
	scheme, _, _ := strings.Cut(text, ":")
	if scheme == "postgres" || scheme == "postgresql" {
		return a.openPolicyTable(ctx, text, name, f)
	}
	if !strings.HasPrefix(scheme, "redis") && scheme != "unix" {
		return nil, usagef("--to must begin with redis:// or rediss:// or unix:// or postgres://")
	}
	server, err := a.redisServer("--to", text)
	if err != nil {
		return nil, err
	}
	rdb, err := redisClient(server)
	if err != nil {
		return nil, err
	}
	return &archive{
		Archive: redissource.New(rdb, name), where: fmt.Sprintf("%q in Redis at %s", name, server.URL.Redacted()),
		close: func() { _ = rdb.Close() },
	}, nil
}

// archiveOfTheService returns where weblimitd follows a policy file, if it has the same environment: there
// WEBLIMIT_POLICY is redis:KEY or postgres:NAME, on the server of WEBLIMIT_REDIS or WEBLIMIT_POSTGRES. named
// says that the name is not to come from there.
func (a *app) archiveOfTheService(name string, named bool) (to, key string, err error) {
	followed := a.env("WEBLIMIT_POLICY")
	kind, key, _ := strings.Cut(followed, ":")
	server := ""
	switch {
	case followed == "":
		return "", "", usagef("where to? set --to (WEBLIMIT_POLICY_TO) to the Redis or PostgreSQL that the fleet follows")
	case strings.HasPrefix(key, "//"):
		return "", "", usagef("WEBLIMIT_POLICY is what weblimitd decides by, a file, redis:KEY or postgres:NAME: set WEBLIMIT_POLICY_TO to the URL")
	case kind == "redis" && key != "":
		to, server = string(a.redis.URL), "WEBLIMIT_REDIS"
	case kind == "postgres" && key != "":
		to, server = string(a.postgres.URL), "WEBLIMIT_POSTGRES"
	default:
		return "", "", usagef("where to? WEBLIMIT_POLICY names a file, which nobody publishes: set --to (WEBLIMIT_POLICY_TO) to the Redis or PostgreSQL that the fleet follows")
	}
	if to == "" {
		return "", "", usagef("where to? WEBLIMIT_POLICY is in %s: set %s or --to to the server", kind, server)
	}
	if named {
		key = name
	}
	return to, key, nil
}

func (a *app) openPolicyTable(ctx context.Context, url, name string, f *archiveFlags) (*archive, error) {
	config, err := a.poolConfigOf("--to", url)
	if err != nil {
		return nil, err
	}
	if err := a.instead("password-file", "postgres-password-file", config.ConnConfig.Password == ""); err != nil {
		return nil, usageError{err}
	}
	table := pgsource.Config{Schema: f.schema}
	if _, err := pgsource.SQL(table); err != nil {
		return nil, usagef("--schema: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &archive{
		Archive: pgsource.New(pool, name, table), pool: pool, close: pool.Close,
		where: fmt.Sprintf("%q in PostgreSQL at %s/%s", name, config.ConnConfig.Host, config.ConnConfig.Database),
	}, nil
}

// publisher returns who publishes, unless --by says so.
func (a *app) publisher(by string) string {
	if by = cmp.Or(by, a.env("WEBLIMIT_BY")); by != "" {
		return by
	}
	host, _ := os.Hostname()
	if who, err := user.Current(); err == nil {
		return who.Username + "@" + host
	}
	return "@" + host
}

// errNotPublished ends a publication that nobody wants. What it is has been said.
var errNotPublished = errors.New("nothing was published")

// agreed asks on a terminal whether to go on. Elsewhere there is nobody to ask.
func (a *app) agreed(ctx context.Context, yes bool, question string) error {
	if yes || !a.isTTY {
		return nil
	}
	if !a.asks {
		return usagef("standard input is no terminal, so nobody can be asked: say --yes")
	}
	a.text.Line(show.Bold, question+" [y/N]")
	answers := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(a.input, maxKey)).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return errNotPublished
	}
}
