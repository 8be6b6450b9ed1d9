package main_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/pgsource"
)

// It counts in PostgreSQL, and follows a policy that is published there.
func TestPostgres(t *testing.T) {
	t.Parallel()
	database := pgtest.Shared(t).Database(t)
	pool := must.Get(pgxpool.New(t.Context(), database))(t)
	defer pool.Close()
	must.OK(t, pgsource.Migrate(t.Context(), pool))
	publish := func(version string, quota int) {
		t.Helper()
		file := policy.File{Name: "limits.yaml", Text: []byte(onePolicy(version, quota))}
		must.Do(policy.Publish(t.Context(), pgsource.New(pool, "limits"), file, policy.Publication{By: "test"}))(t)
	}
	publish("1", 5)
	c := pool.Config().ConnConfig
	address := url.URL{
		Scheme: "postgres", User: url.UserPassword(c.User, c.Password), Path: "/" + c.Database,
		RawQuery: url.Values{"host": {c.Host}, "port": {fmt.Sprint(c.Port)}}.Encode(),
	}
	env := []string{"WEBLIMIT_POSTGRES=" + address.String()}
	one, other := start(t, env, "--policy", "postgres:limits"), start(t, env, "--policy", "postgres:limits")
	check.Equal(t, "of 7 allowed", one.allows(t, "192.0.2.1", 3)+other.allows(t, "192.0.2.1", 4), 5)
	publish("2", 7)
	one.decides(t, "2")
	other.decides(t, "2")
	check.Equal(t, "more allowed", one.allows(t, "192.0.2.1", 4), 2)
}
