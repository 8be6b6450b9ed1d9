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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/internal/archivetest"
	"github.com/weblimit/weblimit/policy/pgsource"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// TestChild is the processes of other tests.
func TestChild(t *testing.T) { child.Run(t) }

// publisher is the second process of TestAProcessFollowsAnother.
var publisher = child.NewRole("publisher", func(t *testing.T, _ *child.Parent, database string) {
	from := pgsource.New(connect(t, database), "limits")
	if _, err := policy.Publish(t.Context(), from, archivetest.File(2), policy.Publication{By: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
})

func connect(t *testing.T, to string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// migrated returns a pool on a database with the table.
func migrated(t *testing.T, to string) *pgxpool.Pool {
	t.Helper()
	pool := connect(t, to)
	if err := pgsource.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return pool
}

func publish(t *testing.T, in policy.Archive, n int) {
	t.Helper()
	if _, err := policy.Publish(t.Context(), in, archivetest.File(n), policy.Publication{}); err != nil {
		t.Fatal(err)
	}
}

// follow returns a set that watches a source, and what tells whether vN decides.
func follow(t *testing.T, from policy.Source, options policy.Options) (set *policy.Set, decides func(n int) func() bool) {
	t.Helper()
	options.AnyName, options.Logger = true, slog.New(slog.DiscardHandler)
	set, err := policy.From(from, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Watch(context.Background()))
	return set, func(n int) func() bool {
		return func() bool { return set.Status().Version.Name == fmt.Sprintf("v%d", n) }
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	archivetest.Run(t, func(t *testing.T) policy.Archive {
		return pgsource.New(migrated(t, pgtest.Shared(t).Database(t)), "limits")
	})
}

// Two files of one database have nothing in common.
func TestTwoNames(t *testing.T) {
	t.Parallel()
	pool := migrated(t, pgtest.Shared(t).Database(t))
	web, jobs := pgsource.New(pool, "web"), pgsource.New(pool, "jobs")
	publish(t, web, 1)
	publish(t, web, 2)
	publish(t, jobs, 3)
	for want, in := range map[string]policy.Archive{"v2": web, "v3": jobs} {
		set, err := policy.From(in, policy.Options{AnyName: true})
		if err != nil || set.Status().Version.Name != want {
			t.Errorf("want %s, got %v: %v", want, set.Status().Version, err)
		}
	}
}

func TestAProcessFollowsAnother(t *testing.T) {
	t.Parallel()
	to := pgtest.Shared(t).Database(t)
	// It asks seldom, so that only notifications can be in time.
	pool := migrated(t, to)
	from := pgsource.New(pool, "limits", pgsource.Config{Poll: time.Hour})
	publish(t, from, 1)
	_, decides := follow(t, from, policy.Options{})
	archivetest.Until(t, "there is a listener", func() (listens bool) {
		err := pool.QueryRow(t.Context(), "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'").Scan(&listens)
		return err == nil && listens
	})
	publisher.Start(t, to).Wait(t)
	began := time.Now()
	archivetest.Until(t, "a publication of another process is seen", decides(2))
	t.Logf("a publication was seen after %v", time.Since(began))
}

// A listener whose connection is ended by hand, or that never hears anything, as behind a PgBouncer: the
// table is asked once a second.
func TestALostListener(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	pool := migrated(t, server.ConnString(""))
	from := pgsource.New(pool, "limits")
	publish(t, from, 1)
	_, decides := follow(t, from, policy.Options{})
	ended := ""
	archivetest.Until(t, "there is a listener", func() bool {
		ended = server.Exec(t, "", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
		return ended != "0"
	})
	publish(t, from, 2)
	archivetest.Until(t, "a process follows without a listener", decides(2))
	archivetest.Until(t, "there is a listener again", func() bool {
		return server.Exec(t, "", "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'") != "0"
	})
	publish(t, from, 3)
	archivetest.Until(t, "a process follows", decides(3))
}

// While PostgreSQL is killed or frozen, each process goes on with what it has, and follows afterwards.
func TestOutages(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	pool := migrated(t, server.ConnString(""))
	from := pgsource.New(pool, "limits")
	publish(t, from, 1)
	keep := policy.Options{Keep: filepath.Join(t.TempDir(), "kept.yaml")}
	set, decides := follow(t, from, keep)
	server.Kill()
	if err := set.Reload(t.Context()); err == nil {
		t.Error("reloaded from a server that is killed")
	}
	if !decides(1)() {
		t.Error("the version of before no longer decides")
	}
	late, err := policy.From(from, policy.Options{AnyName: true, Keep: keep.Keep, Logger: slog.New(slog.DiscardHandler)})
	if err != nil || late.Status().Version.Name != "v1" || late.Status().Err == nil {
		t.Errorf("a start while PostgreSQL is away: %v", err)
	}
	server.Restart(t)
	archivetest.Until(t, "PostgreSQL is back", func() bool {
		_, err := policy.Publish(t.Context(), from, archivetest.File(2), policy.Publication{})
		return err == nil
	})
	archivetest.Until(t, "a process follows after a restart", decides(2))

	server.Freeze(t)
	began := time.Now()
	if err := set.Reload(t.Context()); err == nil || time.Since(began) > time.Minute {
		t.Errorf("a reload from a frozen server: %v after %v", err, time.Since(began))
	}
	server.Thaw(t)
	archivetest.Until(t, "PostgreSQL answers", func() bool {
		_, err := policy.Publish(t.Context(), from, archivetest.File(3), policy.Publication{})
		return err == nil
	})
	archivetest.Until(t, "a process follows after a pause", decides(3))
}

// The rights of the package's documentation are enough, and those of services don't publish.
func TestRights(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	sql, err := pgsource.SQL()
	if err != nil {
		t.Fatal(err)
	}
	server.Exec(t, "", sql+`
		CREATE ROLE app LOGIN PASSWORD 'a'; CREATE ROLE publisher LOGIN PASSWORD 'p';
		GRANT USAGE ON SCHEMA weblimit_policy TO app, publisher;
		GRANT SELECT ON weblimit_policy.release TO app, publisher;
		GRANT INSERT, DELETE ON weblimit_policy.release TO publisher`)
	app := connect(t, server.ConnStringAs("app", "a", ""))
	publisher := connect(t, server.ConnStringAs("publisher", "p", ""))
	for _, pool := range []*pgxpool.Pool{app, publisher} {
		if err := pgsource.Migrate(t.Context(), pool); err != nil {
			t.Errorf("a role that may not make tables, where they are: %v", err)
		}
	}
	in := pgsource.New(publisher, "limits")
	for n := range policy.KeptReleases + 2 {
		publish(t, in, n+1)
	}
	_, decides := follow(t, pgsource.New(app, "limits"), policy.Options{})
	if _, err := policy.Rollback(t.Context(), in, 0, policy.Publication{}); err != nil {
		t.Fatal(err)
	}
	archivetest.Until(t, "a service follows", decides(policy.KeptReleases+1))
	var refused *pgconn.PgError
	_, err = policy.Publish(t.Context(), pgsource.New(app, "limits"), archivetest.File(1), policy.Publication{})
	if !errors.As(err, &refused) || refused.Code != "42501" {
		t.Errorf("a service publishes: %v", err)
	}
}

// Every role may notify every channel. A flood of notifications costs a few looks per second.
func TestAFloodOfNotifications(t *testing.T) {
	t.Parallel()
	to := pgtest.Shared(t).Database(t)
	pool := migrated(t, to)
	from := pgsource.New(pool, "limits", pgsource.Config{Poll: time.Hour})
	publish(t, from, 1)
	watched, looks := connect(t, to), int64(0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	go func() {
		for ctx.Err() == nil {
			_, _ = pool.Exec(ctx, "SELECT pg_notify('weblimit_policy', 'limits')")
		}
	}()
	go func() {
		defer cancel()
		for since := time.Since(began); since < 2*time.Second || watched.Stat().AcquireCount() < 2 && since < time.Minute; since = time.Since(began) {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	loads := 0
	pgsource.New(watched, "limits", pgsource.Config{Poll: time.Hour}).Watch(ctx, func() { loads++ })
	looks = watched.Stat().AcquireCount()
	took := time.Since(began)
	if looks < 2 || looks > 5+int64(took/(100*time.Millisecond)) || loads != 1 {
		t.Errorf("in %v, the table was looked at %d times and loaded %d times", took, looks, loads)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]pgsource.Config{
		"Schema must be":   {Schema: `x"; DROP TABLE users; --`},
		"Poll must not be": {Poll: -1},
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
	server := pgtest.Start(t)
	admin := migrated(t, server.ConnString(""))
	in := pgsource.New(admin, "limits")
	publish(t, in, 1)
	server.Exec(t, "", "CREATE ROLE app LOGIN PASSWORD 'fresh'; GRANT USAGE ON SCHEMA weblimit_policy TO app; GRANT SELECT ON weblimit_policy.release TO app")
	config, err := pgxpool.ParseConfig(server.ConnStringAs("app", "expired", ""))
	if err != nil {
		t.Fatal(err)
	}
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.Password = "fresh"
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	_, decides := follow(t, pgsource.New(pool, "limits", pgsource.Config{Poll: time.Hour}), policy.Options{})
	archivetest.Until(t, "there is a listener", func() bool {
		return server.Exec(t, "", "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'") != "0"
	})
	publish(t, in, 2)
	archivetest.Until(t, "it hears of a release", decides(2))
}

// A connection on which nothing happens is asked whether it lives, and goes on listening.
func TestASilentListener(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	from := pgsource.New(migrated(t, server.ConnString("")), "limits", pgsource.Config{Poll: time.Hour}).AskingAfter(50 * time.Millisecond)
	publish(t, from, 1)
	_, decides := follow(t, from, policy.Options{})
	const listener = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%ping%' AND pid <> pg_backend_pid()"
	before := ""
	archivetest.Until(t, "there is a listener, which was asked", func() bool {
		before = server.Exec(t, "", listener)
		return before != ""
	})
	time.Sleep(time.Second)
	if after := server.Exec(t, "", listener); after != before {
		t.Errorf("the listener was %s, and is %s", before, after)
	}
	publish(t, from, 2)
	archivetest.Until(t, "it hears of a release", decides(2)) // it asks for one once an hour
}
