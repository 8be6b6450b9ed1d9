package pgsource_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/wait"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/internal/archivetest"
	"github.com/weblimit/weblimit/policy/pgsource"
)

func TestMain(m *testing.M) {
	wait.Beside(8) // most wait for servers
	os.Exit(pgtest.Main(m))
}

// TestChild is the processes of other tests.
func TestChild(t *testing.T) { child.Run(t) }

// publisher is the second process of TestAProcessFollowsAnother.
var publisher = child.NewRole("publisher", func(t *testing.T, _ *child.Parent, database string) {
	publish(t, pgsource.New(connect(t, database), "limits").Within(time.Minute), 2)
})

func connect(tb testing.TB, to string) *pgxpool.Pool {
	tb.Helper()
	pool := must.Get(pgxpool.New(context.Background(), to))(tb)
	tb.Cleanup(pool.Close)
	return pool
}

// migrated returns the file "limits" of a schema of its own.
func migrated(tb testing.TB) *pgsource.Source {
	tb.Helper()
	return file(tb, connect(tb, pgtest.Shared(tb).ConnString("")), pgsource.Config{Schema: pgtest.Name("policy")})
}

// file returns the file "limits", whose table is made. It waits for a server on a busy machine.
func file(tb testing.TB, pool *pgxpool.Pool, config pgsource.Config) *pgsource.Source {
	tb.Helper()
	must.OK(tb, pgsource.Migrate(tb.Context(), pool, config))
	return pgsource.New(pool, "limits", config).Within(time.Minute)
}

func publish(tb testing.TB, in policy.Archive, n int) {
	tb.Helper()
	must.Get(policy.Publish(tb.Context(), in, archivetest.File(n), policy.Publication{}))(tb)
}

// publishes publishes a file as soon as PostgreSQL answers.
func publishes(t *testing.T, in policy.Archive, n int) {
	t.Helper()
	wait.Until(t, "PostgreSQL answers", func() bool {
		_, err := policy.Publish(t.Context(), in, archivetest.File(n), policy.Publication{})
		return err == nil
	})
}

// follow returns a set that watches a source, and what waits until vN decides.
func follow(t *testing.T, from policy.Source, options policy.Options) (set *policy.Set, decides func(n int)) {
	t.Helper()
	options.AnyName, options.Logger = true, slog.New(slog.DiscardHandler)
	set = must.Get(policy.From(from, options))(t)
	t.Cleanup(set.Watch(context.Background()))
	return set, func(n int) {
		t.Helper()
		wait.Until(t, fmt.Sprint("a process follows to version ", n), func() bool { return set.Status().Version.Name == fmt.Sprintf("v%d", n) })
	}
}

// listener waits until a connection listens to a schema, and returns its process.
func listener(t *testing.T, schema string) (pid string) {
	t.Helper()
	wait.Until(t, "there is a listener", func() bool {
		pid = pgtest.Shared(t).Exec(t, "", "SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN "+schema+"'")
		return pid != ""
	})
	return pid
}

func TestArchive(t *testing.T) {
	t.Parallel()
	archivetest.Run(t, func(t *testing.T) policy.Archive { return migrated(t) })
}

// Two files of one database have nothing in common.
func TestTwoNames(t *testing.T) {
	t.Parallel()
	pool, config := connect(t, pgtest.Shared(t).ConnString("")), pgsource.Config{Schema: pgtest.Name("policy")}
	must.OK(t, pgsource.Migrate(t.Context(), pool, config))
	web, jobs := pgsource.New(pool, "web", config).Within(time.Minute), pgsource.New(pool, "jobs", config).Within(time.Minute)
	publish(t, web, 1)
	publish(t, web, 2)
	publish(t, jobs, 3)
	for want, in := range map[string]policy.Archive{"v2": web, "v3": jobs} {
		set := must.Get(policy.From(in, policy.Options{AnyName: true}))(t)
		check.Equal(t, "version", set.Status().Version.Name, want)
	}
}

func TestAProcessFollowsAnother(t *testing.T) {
	t.Parallel()
	to := pgtest.Shared(t).Database(t)
	// It asks seldom, so that only notifications can be in time.
	from := file(t, connect(t, to), pgsource.Config{Poll: time.Hour})
	publish(t, from, 1)
	_, decides := follow(t, from, policy.Options{})
	listener(t, pgsource.DefaultSchema)
	publisher.Start(t, to).Wait(t)
	decides(2)
}

// A listener whose connection is ended by hand, or that never hears anything, as behind a PgBouncer: the
// table is asked once a second.
func TestALostListener(t *testing.T) {
	t.Parallel()
	schema := pgtest.Name("policy")
	from := file(t, connect(t, pgtest.Shared(t).ConnString("")), pgsource.Config{Schema: schema})
	publish(t, from, 1)
	_, decides := follow(t, from, policy.Options{})
	before := listener(t, schema)
	pgtest.Shared(t).Exec(t, "", "SELECT pg_terminate_backend("+before+", 60000)")
	publish(t, from, 2)
	decides(2)
	if again := listener(t, schema); again == before {
		t.Errorf("%s listens, which was ended", again)
	}
	publish(t, from, 3)
	decides(3)
}

// While PostgreSQL is killed or frozen, each process goes on with what it has, and follows afterwards.
func TestOutages(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	pool := connect(t, server.ConnString(""))
	from := file(t, pool, pgsource.Config{})
	publish(t, from, 1)
	keep := policy.Options{Keep: filepath.Join(t.TempDir(), "kept.yaml")}
	set, decides := follow(t, from, keep)
	server.Kill()
	check.Fails(t, "reloaded from a server that is killed", set.Reload(t.Context()), "")
	check.Equal(t, "what decides", set.Status().Version.Name, "v1")
	late, err := policy.From(from, policy.Options{AnyName: true, Keep: keep.Keep, Logger: slog.New(slog.DiscardHandler)})
	if err != nil || late.Status().Version.Name != "v1" || late.Status().Err == nil {
		t.Errorf("a start while PostgreSQL is away: %v", err)
	}
	server.Restart(t)
	publishes(t, from, 2)
	decides(2)

	server.Freeze(t)
	began := time.Now()
	hasty := pgsource.New(pool, "limits").Within(200 * time.Millisecond)
	if _, err := hasty.Load(t.Context()); err == nil || time.Since(began) > time.Minute {
		t.Errorf("from a frozen server: %v after %v", err, time.Since(began))
	}
	server.Thaw(t)
	publishes(t, from, 3)
	decides(3)
}

// The rights of the package's documentation are enough, and those of services don't publish.
func TestRights(t *testing.T) {
	t.Parallel()
	server, schema := pgtest.Shared(t), pgtest.Name("policy")
	config := pgsource.Config{Schema: schema}
	app, writer := role(t), role(t)
	server.Exec(t, "", must.Get(pgsource.SQL(config))(t)+fmt.Sprintf(`
		GRANT USAGE ON SCHEMA %[1]s TO %[2]s, %[3]s;
		GRANT SELECT ON %[1]s.release TO %[2]s, %[3]s;
		GRANT INSERT, DELETE ON %[1]s.release TO %[3]s`, schema, app, writer))
	// Migrate is allowed to a role that may not make tables, where they are.
	in, read := file(t, connect(t, server.ConnStringAs(writer, "p", "")), config), file(t, connect(t, server.ConnStringAs(app, "p", "")), config)
	for n := range policy.KeptReleases + 2 {
		publish(t, in, n+1)
	}
	_, decides := follow(t, read, policy.Options{})
	must.Get(policy.Rollback(t.Context(), in, 0, policy.Publication{}))(t)
	decides(policy.KeptReleases + 1)
	var refused *pgconn.PgError
	_, err := policy.Publish(t.Context(), read, archivetest.File(1), policy.Publication{})
	if !errors.As(err, &refused) || refused.Code != "42501" {
		t.Errorf("a service publishes: %v", err)
	}
}

// role makes a role that logs in with the password "p", and may do nothing yet.
func role(t *testing.T) string {
	t.Helper()
	name := pgtest.Name("role")
	pgtest.Shared(t).Exec(t, "", "CREATE ROLE "+name+" LOGIN PASSWORD 'p'")
	return name
}

// Every role may notify every channel. A flood of notifications costs a few looks per second.
func TestAFloodOfNotifications(t *testing.T) {
	t.Parallel()
	to, config := pgtest.Shared(t).ConnString(""), pgsource.Config{Schema: pgtest.Name("policy"), Poll: time.Hour}
	pool := connect(t, to)
	publish(t, file(t, pool, config), 1)
	watched := connect(t, to)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	go func() {
		defer cancel() // after some looks, or a minute
		for watched.Stat().AcquireCount() < 8 && time.Since(began) < time.Minute && ctx.Err() == nil {
			_, _ = pool.Exec(ctx, "SELECT pg_notify($1, 'limits')", config.Schema)
		}
	}()
	loads := 0
	pgsource.New(watched, "limits", config).Within(time.Minute).Watch(ctx, func() { loads++ })
	looks, took := watched.Stat().AcquireCount(), time.Since(began)
	if looks < 2 || looks > 5+int64(took/(100*time.Millisecond)) || loads != 1 {
		t.Errorf("in %v, the table was looked at %d times and loaded %d times", took, looks, loads)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]pgsource.Config{
		"Schema must be": {Schema: `x"; DROP TABLE users; --`},

		"Poll must be from 100ms to 24h0m0s, got -1ns":      {Poll: -1},
		"Poll must be from 100ms to 24h0m0s, got 5ns":       {Poll: 5}, // PostgreSQL would be asked without a pause
		"Poll must be from 100ms to 24h0m0s, got 8760h0m0s": {Poll: 365 * 24 * time.Hour},
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, want) {
					t.Errorf("%+v: %q, want %q", config, said, want)
				}
			}()
			pgsource.New(nil, "limits", config)
		}()
	}
}

// The listener connects as the pool does, also where passwords change.
func TestTheListenerAsksForItsPassword(t *testing.T) {
	t.Parallel()
	server, app := pgtest.Shared(t), role(t)
	c := pgsource.Config{Schema: pgtest.Name("policy"), Poll: time.Hour}
	in := file(t, connect(t, server.ConnString("")), c)
	publish(t, in, 1)
	server.Exec(t, "", "GRANT USAGE ON SCHEMA "+c.Schema+" TO "+app+"; GRANT SELECT ON "+c.Schema+".release TO "+app)
	config := must.Get(pgxpool.ParseConfig(server.ConnStringAs(app, "expired", "")))(t)
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.Password = "p"
		return nil
	}
	pool := must.Get(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	_, decides := follow(t, pgsource.New(pool, "limits", c).Within(time.Minute), policy.Options{})
	listener(t, c.Schema)
	publish(t, in, 2)
	decides(2)
}

// A connection on which nothing happens is asked whether it lives, and goes on listening.
func TestASilentListener(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	pool := connect(t, server.Database(t))
	from := file(t, pool, pgsource.Config{Poll: time.Hour}).AskingAfter(50 * time.Millisecond)
	publish(t, from, 1)
	_, decides := follow(t, from, policy.Options{})
	connections, asked := map[string]bool{}, map[string]bool{}
	wait.Until(t, "a connection is asked again and again", func() bool {
		last := server.Exec(t, "", "SELECT pid, query_start FROM pg_stat_activity WHERE query LIKE '%ping%' AND datname = '"+pool.Config().ConnConfig.Database+"'")
		if pid, _, found := strings.Cut(last, "|"); found {
			connections[pid], asked[last] = true, true
		}
		return len(asked) > 3
	})
	check.Equal(t, "connections that were asked", len(connections), 1)
	publish(t, from, 2)
	decides(2) // it asks for one once an hour
}
