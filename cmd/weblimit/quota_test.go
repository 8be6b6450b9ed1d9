package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota"
)

// both stops the servers of PostgreSQL and Redis after the tests.
type both struct{ m *testing.M }

func (b both) Run() int { return redistest.Main(b.m) }

// biller is an application whose limits are kept in a book.
type biller struct {
	book    *quota.Book
	limiter *core.Limiter
	rdb     redis.UniversalClient
	pool    *pgxpool.Pool
	prefix  string
	ops     call
}

// startBiller starts an application on a database of its own. It flushes when it is told to, unless
// config says more often.
func startBiller(t *testing.T, config quota.Config) *biller {
	t.Helper()
	return startBillerOn(t, redistest.Shared(t), config)
}

func startBillerOn(t *testing.T, server *redistest.Server, config quota.Config) *biller {
	t.Helper()
	database := pgtest.Shared(t).Database(t)
	pool, err := pgxpool.New(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := &biller{rdb: clientOf(t, server), pool: pool, prefix: redistest.Prefix(t)}
	config.Store, config.FlushEvery = redisstore.New(b.rdb, redisstore.Config{Prefix: b.prefix}), cmp.Or(config.FlushEvery, time.Minute)
	config.Timeout = time.Minute
	if b.book, err = quota.Open(t.Context(), pool, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.book.Close(context.Background()) })
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	b.limiter = core.Must(core.New(core.Config{Store: b.book.Store(), Timeout: time.Minute, Limits: []core.Limit{
		b.book.PerTenant(core.PerMonth(100, berlin).Soft(80).Named("plan"), keyfuncs.Tenant("tenant")),
	}}))
	b.ops.env = map[string]string{
		"WEBLIMIT_POSTGRES": databaseURL(t, pool), "WEBLIMIT_REDIS": "unix://" + server.Addr(), "WEBLIMIT_PREFIX": b.prefix,
	}
	return b
}

// databaseURL returns the address of a pool's database.
func databaseURL(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	c := pool.Config().ConnConfig
	return "postgres:///" + c.Database + "?host=" + c.Host + "&user=" + c.User
}

func (b *biller) spend(t *testing.T, tenant string, n int) {
	t.Helper()
	for range n {
		if d := b.limiter.AllowKey(t.Context(), tenant, 1); d.Err != nil {
			t.Fatal(d.Err)
		}
	}
}

func (b *biller) flush(t *testing.T) {
	t.Helper()
	must.OK(t, b.book.Flush(t.Context()))
}

// forget has Redis lose a tenant, or have what dump has returned.
func (b *biller) forget(t *testing.T, tenant string) {
	t.Helper()
	keys, err := b.rdb.Keys(t.Context(), b.prefix+"*"+tenant+"*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	must.OK(t, b.rdb.Del(t.Context(), keys[0]).Err())
}

// dump returns a function that sets a tenant in Redis back to what it is now.
func (b *biller) dump(t *testing.T, tenant string) (restore func()) {
	t.Helper()
	keys, err := b.rdb.Keys(t.Context(), b.prefix+"*"+tenant+"*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	data := must.Get(b.rdb.Dump(t.Context(), keys[0]).Result())(t)
	return func() {
		must.OK(t, b.rdb.RestoreReplace(t.Context(), keys[0], 48*time.Hour, data).Err())
	}
}

// What differs is told with its cause; what is on its way is not; a repair leaves nothing.
func TestReconcile(t *testing.T) {
	t.Parallel()
	b := startBiller(t, quota.Config{})
	for _, tenant := range []string{"tenant:same", "tenant:forgotten", "tenant:unflushed", "tenant:forked"} {
		b.spend(t, tenant, 10)
	}
	older := b.dump(t, "tenant:forked")
	b.spend(t, "tenant:forked", 5)
	b.flush(t)
	wants(t, b.ops.ok(t, "quota", "reconcile", "--settle", "0s"), "Compared 4 accounts in Redis at unix://", "and PostgreSQL at ", "They agree.")

	b.forget(t, "tenant:forgotten")
	b.spend(t, "tenant:unflushed", 3)
	older()
	r := b.ops.run(t, "quota", "reconcile", "--settle", "0s")
	if r.code != exitDenied {
		t.Errorf("exit code %d, want %d: %s", r.code, exitDenied, r.err)
	}
	wants(t, squeeze(r.out), "forgotten", "10 13 not flushed", "15 10 forked", "Found: 1 forgotten, 1 forked, 1 not flushed.", "weblimit quota reconcile --repair")
	if strings.Contains(r.out, "tenant:same") {
		t.Errorf("what agrees is shown:\n%s", r.out)
	}
	answer := decode[reconciliationJSON](t, b.ops.run(t, "quota", "reconcile", "--settle", "0s", "--json").out)
	if answer.Accounts != 4 || answer.Causes[quota.CauseForked] != 1 || len(answer.Differences) != 3 || answer.More || answer.Repaired != 0 {
		t.Errorf("as JSON: %+v", answer)
	}
	answer = decode[reconciliationJSON](t, b.ops.run(t, "quota", "reconcile", "--settle", "0s", "--json", "--max", "1").out)
	if len(answer.Differences) != 1 || !answer.More || len(answer.Causes) != 3 {
		t.Errorf("bounded: %+v", answer)
	}

	wants(t, b.ops.ok(t, "quota", "reconcile", "--settle", "0s", "--repair"), "repaired: ", "2 of them repaired")
	wants(t, b.ops.ok(t, "quota", "reconcile", "--settle", "0s"), "Found: 1 forgotten.")
	usage := squeeze(b.ops.ok(t, "quota", "usage"))
	for tenant, used := range map[string]string{"tenant:same": "10", "tenant:forgotten": "10", "tenant:unflushed": "13", "tenant:forked": "15"} {
		if !strings.Contains(usage, tenant) || !strings.Contains(usage+" ", " "+used+" ") {
			t.Errorf("%s has not used %s:\n%s", tenant, used, usage)
		}
	}
	// The application goes on with that.
	if d := b.limiter.AllowKey(t.Context(), "tenant:forked", 1); d.Results()[0].Remaining != 100-16 {
		t.Errorf("after the repair, %d units are left", d.Results()[0].Remaining)
	}
}

// Units that an application writes meanwhile are no difference, and those that stay are.
func TestReconcileWaitsForWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	b := startBillerOn(t, server, quota.Config{})
	b.spend(t, "tenant:acme", 10)
	b.flush(t)
	b.spend(t, "tenant:acme", 1)
	b.ops.fails(t, exitDenied, "quota", "reconcile", "--settle", "10ms")
	asked := func() (calls int64) { // what Redis was asked of accounts
		for name, stat := range server.Commandstats(t) {
			if strings.HasPrefix(name, "eval") || strings.HasPrefix(name, "fcall") {
				calls += stat.Calls
			}
		}
		return calls
	}
	for settle := time.Second; ; settle *= 2 {
		b.flush(t)
		b.spend(t, "tenant:acme", 1)
		before := asked()
		ended := make(chan result, 1)
		go func() { ended <- b.ops.run(t, "quota", "reconcile", "--settle", settle.String()) }()
		looks := time.Now() // at the latest, it has not yet
		wait.Until(t, "it looks", func() bool {
			now := time.Now()
			if asked() > before {
				return true
			}
			looks = now
			return false
		})
		b.flush(t)
		b.spend(t, "tenant:acme", 3) // that is on its way again
		charged := time.Since(looks)
		r := <-ended
		if charged >= settle && settle < 16*time.Second {
			continue // the machine was too busy to do all of it meanwhile
		}
		if r.code != exitOK || r.err != "" {
			t.Errorf("exit code %d: %s", r.code, r.err)
		}
		wants(t, r.out, "They agree.", "1 account charged meanwhile")
		return
	}
}

// Another Redis, another prefix and limits that nobody has declared are told, and not guessed about.
func TestReconcileGuessesNothing(t *testing.T) {
	t.Parallel()
	b := startBiller(t, quota.Config{})
	b.spend(t, "tenant:acme", 10)
	b.flush(t)
	wrong := call{env: map[string]string{}}
	for name, value := range b.ops.env {
		wrong.env[name] = value
	}
	wrong.env["WEBLIMIT_PREFIX"] = "other:"
	r := wrong.run(t, "quota", "reconcile", "--repair", "--settle", "0s")
	check.Equal(t, "a wrong prefix: exit code", r.code, exitDenied)
	wants(t, r.out, "Redis has none of the accounts", `is the prefix "other:" right?`)
	exec := func(sql string) {
		t.Helper()
		must.Do(b.pool.Exec(t.Context(), sql))(t)
	}
	exec("UPDATE weblimit.declared SET zone = 'Moon/Tranquility'")
	r = b.ops.run(t, "quota", "reconcile", "--settle", "0s")
	wants(t, r.out, "unknown limit", "this machine does not know the time zone of its periods")
	wants(t, r.err, `limit "plan"`, "Moon/Tranquility")
	check.Equal(t, "an unknown time zone: exit code", r.code, exitDenied)
	exec("DELETE FROM weblimit.declared")
	r = b.ops.run(t, "quota", "reconcile", "--settle", "0s")
	wants(t, r.out, "unknown limit", "no process of this version has declared the limit")
	wants(t, b.ops.ok(t, "quota", "usage"), "tenant:acme", "UTC to ")
	wants(t, b.ops.fails(t, exitError, "quota", "statement", "tenant:acme", "--limit", "plan"), `no application has declared a limit "plan"`)
	wrong.env = map[string]string{"WEBLIMIT_POSTGRES": b.ops.env["WEBLIMIT_POSTGRES"], "WEBLIMIT_SCHEMA": "elsewhere"}
	wants(t, wrong.fails(t, exitError, "quota", "usage"), `no book in the schema "elsewhere"`)
}

// Usage and statements, by month and day, as a table, CSV and JSON, and what is to be done instead of a reset.
func TestUsageStatementAdjust(t *testing.T) {
	t.Parallel()
	b := startBiller(t, quota.Config{})
	b.spend(t, "tenant:acme", 90)
	b.spend(t, "tenant:=cmd|x", 1)
	b.flush(t)
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	wants(t, squeeze(b.ops.ok(t, "quota", "usage", "--limit", "plan", "--tenant", "tenant:acme")), "LIMIT TENANT PERIOD USED plan tenant:acme "+time.Now().In(berlin).Format("2006-01")+"-01 to ", " 90")
	wants(t, b.ops.ok(t, "quota", "usage", "--tenant", "tenant:acme", "--days"), "DAY", "90")
	wants(t, b.ops.ok(t, "quota", "usage", "--to", "2020-01-01"), "Nothing is used.")
	rows := decode[struct{ Usage []usageJSON }](t, b.ops.ok(t, "quota", "usage", "--json")).Usage
	if len(rows) != 2 || rows[1].Tenant != "tenant:acme" && rows[0].Tenant != "tenant:acme" {
		t.Errorf("usage %+v", rows)
	}
	adjusted := b.ops.ok(t, "quota", "adjust", "tenant:acme", "--limit", "plan", "--units", "500", "--reason", "outage of 3 May", "--operation", "ticket-1")
	wants(t, adjusted, "Adjusted by +500: tenant:acme under plan, operation ticket-1.")
	wants(t, b.ops.ok(t, "quota", "adjust", "tenant:acme", "--limit", "plan", "--units", "500", "--reason", "outage of 3 May", "--operation", "ticket-1"), "was made before: nothing changed")
	wants(t, b.ops.fails(t, exitError, "quota", "adjust", "tenant:acme", "--limit", "plan", "--units", "501", "--reason", "outage of 3 May", "--operation", "ticket-1"), "used before, for another change")
	wants(t, b.ops.ok(t, "quota", "statement", "tenant:acme"), "tenant:acme under plan, ", "so far", "90 of 580, denied from 600", "the limit's own numbers", "+500", "adjustment of +500: outage of 3 May")
	all := decode[struct{ Statements []quota.Statement }](t, b.ops.ok(t, "quota", "statement", "tenant:acme", "--json")).Statements
	if len(all) != 1 || all[0].Used != 90 || all[0].Adjusted != 500 {
		t.Errorf("statements %+v", all)
	}
	records, err := csv.NewReader(strings.NewReader(b.ops.ok(t, "quota", "statement", "tenant:acme", "--csv"))).ReadAll()
	if err != nil || len(records) != 2 || records[1][1] != "tenant:acme" {
		t.Errorf("CSV %q, %v", records, err)
	}
	wants(t, b.ops.fails(t, exitError, "quota", "statement", "acme"), "nothing is known of this tenant", "tenant:acme")
}

// Names that are not there are errors with the name that may be meant, and not answers that nothing is
// used or to be done. An adjustment that no decision follows is said to be one.
func TestNamesThatAreNotThere(t *testing.T) {
	t.Parallel()
	b := startBiller(t, quota.Config{})
	must.Get(core.New(core.Config{Store: b.book.Store(), Limits: []core.Limit{core.PerMonth(100, time.UTC).By(keyfuncs.Tenant("tenant")).Named("same-for-all")}}))(t)
	b.spend(t, "tenant:acme", 1)
	b.flush(t)
	for _, line := range []struct{ args, want string }{
		{"quota usage --tenant acme", `did you mean "tenant:acme"?`},
		{"quota usage --tenant acme --days", `did you mean "tenant:acme"?`},
		{"quota usage --limit paln", `did you mean "plan"?`},
		{"quota statement acme", `did you mean "tenant:acme"?`},
		{"quota statement tenant:other", "nothing is known of this tenant"},
		{"quota statement --all --limit paln", `did you mean "plan"?`},
		{"quota notices --tenant acme", `did you mean "tenant:acme"?`},
		{"quota notices --limit paln", `did you mean "plan"?`},
		{"quota redeliver billing", "no channel of this name"},
		{"quota adjust acme --limit plan --units 5 --reason r --operation o", `did you mean "tenant:acme"?`},
		{"quota adjust tenant:acme --limit paln --units 5 --reason r --operation o", `did you mean "plan"?`},
		{"quota adjust tenant:acme --limit plan --units -100 --reason r --operation o", "99 units fewer are possible"},
	} {
		wants(t, b.ops.fails(t, exitError, strings.Fields(line.args)...), line.want)
	}
	wants(t, b.ops.ok(t, "quota", "usage", "--tenant", "tenant:other"), "Nothing is used.")
	adjust := strings.Fields("quota adjust tenant:acme --limit plan --units 5 --reason r --operation o")
	if out := b.ops.ok(t, adjust...); strings.Contains(out, "Decisions stay") || !strings.Contains(out, "Adjusted by +5") {
		t.Errorf("the corrected call: %s", out)
	}
	wants(t, b.ops.ok(t, strings.Fields("quota adjust tenant:acme --limit same-for-all --units 5 --reason r")...), "Decisions stay as they are")
}

// A month's bill has all tenants: as a table, CSV and JSON.
func TestStatementsOfAllTenants(t *testing.T) {
	t.Parallel()
	b := startBiller(t, quota.Config{})
	b.flush(t)
	wants(t, b.ops.ok(t, "quota", "statement", "--all"), "Nothing is used, and nobody has a plan.")
	b.spend(t, "tenant:acme", 90)
	b.spend(t, "tenant:globex", 7)
	b.flush(t)
	must.OK(t, b.book.SetPlan(t.Context(), quota.Plan{Limit: "plan", Name: "pro", Included: 1000, Hard: 1200}))
	must.OK(t, b.book.Assign(t.Context(), quota.Assignment{Limit: "plan", Tenant: "tenant:idle", Plan: "pro"}))
	wants(t, squeeze(b.ops.ok(t, "quota", "statement", "--all", "--limit", "plan")), "plan tenant:acme ", " 80 90 0 10 ", "tenant:globex", "tenant:idle", " pro 1,000 0 0 0")
	records := must.Get(csv.NewReader(strings.NewReader(b.ops.ok(t, "quota", "statement", "--all", "--csv"))).ReadAll())(t)
	check.Equal(t, "lines of CSV", len(records), 4)
	all := decode[struct{ Statements []quota.Statement }](t, b.ops.ok(t, "quota", "statement", "--all", "--json")).Statements
	if len(all) != 3 || all[0].Used != 90 || all[0].Overage != 10 || all[2].Plan != "pro" {
		t.Errorf("statements %+v", all)
	}
}

// Notices that nobody tries any more are listed, and delivered after all.
func TestNotices(t *testing.T) {
	t.Parallel()
	refuse := make(chan struct{})
	b := startBiller(t, quota.Config{FlushEvery: 50 * time.Millisecond, Notices: []quota.Channel{{Name: "billing", Deliver: func(context.Context, quota.Notice) error {
		select {
		case <-refuse:
			return nil
		default:
			return &quota.DeliveryError{Err: errors.New("410 Gone \x1b[2J"), Permanent: true}
		}
	}}}})
	b.spend(t, "tenant:acme", 80)
	b.flush(t)
	var r result
	wait.Until(t, "three notices die", func() bool {
		r = b.ops.run(t, "quota", "notices", "--dead")
		return r.code == exitDenied && strings.Count(r.out, "410 Gone") == 3
	})
	wants(t, r.out, "billing", "tenant:acme", "80 %", `410 Gone \x1b[2J`, "weblimit quota redeliver billing")
	close(refuse)
	wants(t, b.ops.ok(t, "quota", "redeliver", "billing", "--tenant", "tenant:other"), "No such notice to billing is dead.")
	wants(t, b.ops.ok(t, "quota", "redeliver", "billing", "--tenant", "tenant:acme"), "will be delivered again.")
	wants(t, b.ops.fails(t, exitError, "quota", "redeliver", "biling"), "no channel of this name", `did you mean "billing"?`)
	wants(t, b.ops.fails(t, exitError, "quota", "notices", "--dead", "--channel", "biling"), `did you mean "billing"?`)
	wait.Until(t, "the notice is delivered", func() bool {
		return strings.Contains(b.ops.ok(t, "quota", "notices", "--json"), `"delivered":`)
	})
	wants(t, b.ops.ok(t, "quota", "notices", "--dead"), "There are none.")
}

// Passwords stand in no list of processes, and in no error.
func TestDatabasePasswords(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, args := range [][]string{
		{"--postgres", "postgres://ops:" + secret + "@127.0.0.1:1/app"},
		{"--postgres", "postgres://ops@127.0.0.1:1/app?password=" + secret},
		{"--postgres", "postgres://ops:" + secret + "@127.0.0.1:99999999/app"},
		{"--postgres", "mysql://ops:" + secret + "@127.0.0.1:1/app"},
	} {
		if text := (call{}).fails(t, exitUsage, append([]string{"quota", "usage"}, args...)...); strings.Contains(text, secret) {
			t.Errorf("%q says %q", args, text)
		}
	}
	for _, url := range []string{"postgres://ops:" + secret + "@127.0.0.1:1/app", "postgres://ops:" + secret + "@[::1/app", "postgres://ops:" + secret + "@x/app?sslmode=nonsense"} {
		r := (call{env: map[string]string{"WEBLIMIT_POSTGRES": url}}).run(t, "quota", "usage", "--timeout", "1s")
		if r.code == exitOK || strings.Contains(r.err+r.out, secret) {
			t.Errorf("%s: exit code %d: %s", url, r.code, r.err)
		}
	}
	server := pgtest.Shared(t)
	database := server.Database(t)
	server.Exec(t, databaseName(t, database), "DO $$ BEGIN CREATE ROLE viewer LOGIN PASSWORD '"+secret+"'; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
	file := filepath.Join(t.TempDir(), "password")
	must.OK(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	c := call{env: map[string]string{"WEBLIMIT_POSTGRES": "postgres:///" + databaseName(t, database) + "?host=" + server.Host() + "&user=viewer"}}
	wants(t, c.fails(t, exitError, "quota", "usage", "--postgres-password-file", file), "no book")
	must.OK(t, os.WriteFile(file, []byte("wrong\n"), 0o600))
	wants(t, c.fails(t, exitError, "quota", "usage", "--postgres-password-file", file), "password authentication failed")
}

func databaseName(t *testing.T, connString string) string {
	t.Helper()
	config := must.Get(pgxpool.ParseConfig(connString))(t)
	return config.ConnConfig.Database
}

// A role that may only read suffices for all but repairs.
func TestQuotaCommandsUnderTheLeastPrivilege(t *testing.T) {
	t.Parallel()
	b := startBiller(t, quota.Config{})
	b.spend(t, "tenant:acme", 10)
	b.flush(t)
	role := "reader_" + b.pool.Config().ConnConfig.Database
	for _, sql := range []string{
		"CREATE ROLE " + role + " LOGIN PASSWORD 'read'", "GRANT USAGE ON SCHEMA weblimit TO " + role, "GRANT SELECT ON ALL TABLES IN SCHEMA weblimit TO " + role,
	} {
		must.Do(b.pool.Exec(t.Context(), sql))(t)
	}
	reader := call{env: map[string]string{}}
	for name, value := range b.ops.env {
		reader.env[name] = value
	}
	c := b.pool.Config().ConnConfig
	reader.env["WEBLIMIT_POSTGRES"] = "postgres://" + role + ":read@/" + c.Database + "?host=" + c.Host
	for _, args := range []string{"reconcile --settle 0s", "usage", "usage --tenant tenant:acme --days", "statement tenant:acme", "notices"} {
		reader.ok(t, append([]string{"quota"}, strings.Fields(args)...)...)
	}
	b.spend(t, "tenant:acme", 1)
	wants(t, reader.fails(t, exitError, "quota", "reconcile", "--settle", "0s", "--repair"), "permission denied")
	wants(t, reader.fails(t, exitError, "quota", "adjust", "tenant:acme", "--limit", "plan", "--units", "5", "--reason", "x"), "permission denied", "(operation weblimit-")
}

func TestMistakesAboutQuotas(t *testing.T) {
	t.Parallel()
	c := call{env: map[string]string{"WEBLIMIT_POSTGRES": "postgres://127.0.0.1:1/app"}}
	for _, line := range []struct{ args, want string }{
		{"quota bogus", "unknown command"},
		{"quota reconcile", "--redis"},
		{"quota reconcile --url http://x", "--redis"},
		{"quota reconcile --redis redis://x --settle -1s", "--settle"},
		{"quota usage --max 0", "--max"},
		{"quota usage --days", "--tenant"},
		{"quota usage --timeout 1h", "--timeout"},
		{"quota statement", "--all"},
		{"quota statement x --csv --json", "exclude"},
		{"quota statement x --all", "--all"},
		{"quota notices --dead --waiting", "exclude"},
		{"quota redeliver a/b", "channel"},
		{"quota adjust x --units 5 --reason y", "--limit"},
		{"quota adjust x --limit plan --reason y", "--units"},
		{"quota adjust x --limit plan --units 5", "--reason"},
	} {
		wants(t, c.fails(t, exitUsage, strings.Fields(line.args)...), line.want)
	}
	wants(t, (call{}).fails(t, exitUsage, "quota", "usage"), "WEBLIMIT_POSTGRES")
	wants(t, c.fails(t, exitError, "quota", "usage", "--timeout", "1s"), "PostgreSQL at 127.0.0.1/app")
}
