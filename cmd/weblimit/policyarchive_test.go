package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/redissource"
)

// eachArchive runs a test with both places that a fleet's file can be in.
func eachArchive(t *testing.T, f func(t *testing.T, to call)) {
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Shared(t)
		f(t, call{env: map[string]string{
			"WEBLIMIT_POLICY_TO": "unix://" + server.Addr(), "WEBLIMIT_POLICY_NAME": redistest.Prefix(t) + "limits", "WEBLIMIT_BY": "ann",
		}})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		f(t, call{env: map[string]string{"WEBLIMIT_POLICY_TO": urlOfDatabase(t), "WEBLIMIT_BY": "ann"}})
	})
}

// urlOfDatabase returns the URL of an empty database.
func urlOfDatabase(t *testing.T) string {
	t.Helper()
	pool := must.Get(pgxpool.New(t.Context(), pgtest.Shared(t).Database(t)))(t)
	defer pool.Close()
	return databaseURL(t, pool)
}

func limitOf(n int) string {
	return fmt.Sprintf("version: v%d\npolicies: {api: {limits: {login: {limit: %d/15m, by: ip}}}}\n", n, n)
}

func TestPolicyReleases(t *testing.T) {
	t.Parallel()
	eachArchive(t, func(t *testing.T, c call) {
		dir := policyFiles(t, map[string]string{
			"1.yaml": limitOf(1), "2.yaml": limitOf(2), "3.yaml": limitOf(3), "comment.yaml": limitOf(3) + "# why\n",
			"wrong.yaml": "policies: {api: {limits: {login: {limit: 5/15m, by: usr}, a: {limit: 1/s, by: ip, cots: 2}}}}",
		})
		create := []string{}
		if strings.HasPrefix(c.env["WEBLIMIT_POLICY_TO"], "postgres") {
			wants(t, c.fails(t, exitError, "policy", "publish", dir+"1.yaml"), "does not exist")
			create = append(create, "--create")
		} else {
			wants(t, c.fails(t, exitUsage, "policy", "publish", dir+"1.yaml", "--create"), "--create is for PostgreSQL")
		}
		wants(t, c.ok(t, append([]string{"policy", "publish", dir + "1.yaml", "--note", "the first"}, create...)...), "The first release of", "with policies api", "release 1, v1#")
		wants(t, c.ok(t, "policy", "publish", dir+"1.yaml"), "has this file already: release 1")
		wants(t, c.ok(t, "policy", "publish", dir+"2.yaml", "--by", "ben"), "api, login: 1 → 2 per 15m; keys keep what they used", "release 2, v2#")

		wrong := c.run(t, "policy", "publish", dir+"wrong.yaml")
		wants(t, wrong.out, `unknown key "usr"`, "cots: unknown field")
		wants(t, wrong.err, "nothing was published")
		if wrong.code != exitError {
			t.Errorf("a wrong file ends with %d", wrong.code)
		}

		// On a terminal somebody is asked, who may say no.
		asked := c
		asked.tty, asked.asks, asked.input = true, true, "\n"
		wants(t, asked.fails(t, exitError, "policy", "publish", dir+"3.yaml"), "nothing was published")
		asked.input = "y\n"
		wants(t, asked.ok(t, "policy", "publish", dir+"3.yaml"), "[y/N]", "release 3, v3#")
		asked.asks = false
		wants(t, asked.fails(t, exitUsage, "policy", "publish", dir+"1.yaml"), "--yes")
		wants(t, c.ok(t, "policy", "publish", dir+"comment.yaml"), "Nothing changes that decides requests.", "release 4")

		wants(t, c.fails(t, exitError, "policy", "publish", dir+"1.yaml", "--after", "2"), "somebody else has published meanwhile: release 4, v3#", "by ann")
		wants(t, c.ok(t, "policy", "rollback"), "Back to release 3, v3#", "release 5, v3#")
		wants(t, c.ok(t, "policy", "rollback", "--note", "ticket 7"), "Back to release 2, v2#", "by ben", "api, login: 3 → 2 per 15m", "release 6, v2#")
		wants(t, c.ok(t, "policy", "rollback", "4", "--after", "2", "--force"), "release 7, v3#")
		wants(t, c.fails(t, exitError, "policy", "rollback", "70"), "release 70", "there is no such release")
		wants(t, c.fails(t, exitUsage, "policy", "rollback", "x"), "RELEASE is a number")

		log := c.ok(t, "policy", "log")
		wants(t, log, "RELEASE", "the first", "back to 2: ticket 7", "ben")
		if lines := strings.Count(log, "\n"); lines != 8 {
			t.Errorf("the log has %d lines:\n%s", lines, log)
		}
		var told struct {
			Releases []struct {
				Release, Of int64
				At          time.Time
				By, Note    string
			}
		}
		if err := json.Unmarshal([]byte(c.ok(t, "policy", "log", "--json")), &told); err != nil || len(told.Releases) != 7 || told.Releases[1].Of != 2 || told.Releases[5].By != "ben" || time.Since(told.Releases[0].At) > time.Hour {
			t.Errorf("as JSON: %+v, %v", told, err)
		}
		check.Equal(t, "the newest release", c.ok(t, "policy", "get"), limitOf(3)+"# why\n")
		check.Equal(t, "release 1", c.ok(t, "policy", "get", "1"), limitOf(1))
		wants(t, c.ok(t, "policy", "status"), "release 7, v3#", "by ann")
		wants(t, c.ok(t, "policy", "status", "--json"), `"good": true`, `"published": true`)
	})
}

// Two operators who have seen the same release: one publishes, and the other hears who was faster.
func TestTwoOperatorsPublish(t *testing.T) {
	t.Parallel()
	eachArchive(t, func(t *testing.T, c call) {
		dir := policyFiles(t, map[string]string{"1.yaml": limitOf(1), "2.yaml": limitOf(2), "3.yaml": limitOf(3)})
		args := []string{"policy", "publish", dir + "1.yaml"}
		if strings.HasPrefix(c.env["WEBLIMIT_POLICY_TO"], "postgres") {
			args = append(args, "--create")
		}
		c.ok(t, args...)
		var both sync.WaitGroup
		var results [2]result
		for i := range results {
			both.Go(func() {
				results[i] = c.run(t, "policy", "publish", fmt.Sprintf("%s%d.yaml", dir, i+2), "--after", "1")
			})
		}
		both.Wait()
		if results[0].code+results[1].code != exitError {
			t.Errorf("two operators: %+v", results)
		}
		for _, r := range results {
			if r.code != exitOK {
				wants(t, r.err, "somebody else has published meanwhile: release 2", "nothing was changed")
			}
		}
	})
}

// A file that somebody has written by hand is told, and publishing repairs it.
func TestAPolicyWrittenByHand(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	key := redistest.Prefix(t) + "limits"
	client := redis.NewClient(&redis.Options{Network: server.Network(), Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	must.OK(t, redissource.Publish(t.Context(), client, key, policy.File{Name: "1.yaml", Text: []byte(limitOf(1))}))
	c := call{}
	to := []string{"--to", "unix://" + server.Addr(), "--name", key}
	run := func(args ...string) []string { return append(append([]string{"policy"}, args...), to...) }
	must.OK(t, client.HSet(t.Context(), key, "text", "policies: {}\x1b[2J").Err())
	said := c.run(t, run("status")...)
	wants(t, said.err, "processes refuse this file")
	if said.code != exitError || strings.Contains(said.out+said.err, "\x1b") {
		t.Errorf("status: %+v", said)
	}
	must.OK(t, client.HSet(t.Context(), key, "text", limitOf(9)).Err())
	wants(t, c.fails(t, exitError, run("status")...), "somebody has written it without publishing")
	dir := policyFiles(t, map[string]string{"1.yaml": limitOf(1)})
	wants(t, c.ok(t, run("publish", dir+"1.yaml")...), "9 → 1 per 15m", "release 2")
	c.ok(t, run("status")...)
}

// Files of Envoy's rate limit service are in archives, too. They are no wrong policies: one can go back to them, and
// nobody is told that processes refuse them.
func TestFilesOfEnvoyInAnArchive(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	key := redistest.Prefix(t) + "edge"
	archive := redissource.New(server.Client(t), key)
	c := call{env: map[string]string{"WEBLIMIT_POLICY_TO": "unix://" + server.Addr(), "WEBLIMIT_POLICY_NAME": key, "WEBLIMIT_BY": "ann"}}
	for n := range 2 {
		text := fmt.Sprintf("domain: edge\ndescriptors: [{key: path, rate_limit: {unit: hour, requests_per_unit: %d}}]\n", n+1)
		must.Do(policy.Publish(t.Context(), archive, policy.File{Name: "edge.yaml", Text: []byte(text)}, policy.Publication{Validate: uncheckedEnvoy}))(t)
	}
	wants(t, c.ok(t, "policy", "status"), "release 2, ", "Envoy's rate limit service", "weblimitd status")
	wants(t, c.ok(t, "policy", "status", "--json"), `"envoy": true`, `"published": true`)
	wants(t, c.ok(t, "policy", "rollback"), "Back to release 1", "What changes is not told", "release 3")
	wants(t, c.ok(t, "policy", "get"), "requests_per_unit: 1")

	dir := policyFiles(t, map[string]string{"limits.yaml": limitOf(1), "edge.yaml": c.ok(t, "policy", "get")})
	wants(t, c.fails(t, exitError, "policy", "publish", dir+"limits.yaml"), "publish policies under another name")
	wants(t, c.fails(t, exitError, "policy", "publish", dir+"edge.yaml"), "weblimitd publish FILE")
	check.Equal(t, "the newest release", must.Get(archive.Releases(t.Context()))(t)[0].Number, 3)
}

func TestWherePoliciesArePublished(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "limits.yaml")
	must.OK(t, os.WriteFile(file, []byte(limitOf(1)), 0o600))
	for want, to := range map[string]string{
		"set --to":                   "",
		"must begin with redis://":   "http://example.com",
		"a password, which":          "redis://:secret@127.0.0.1:1",
		"PGPASSWORD":                 "postgres://app:secret@127.0.0.1:1/db",
		"--to has a password, which": "postgres://app@127.0.0.1:1/db?password=secret",
	} {
		args := []string{"policy", "publish", file}
		if to != "" {
			args = append(args, "--to", to)
		}
		said := call{}.fails(t, exitUsage, args...)
		wants(t, said, want)
		if strings.Contains(said, "secret") {
			t.Errorf("the password is repeated: %s", said)
		}
	}
	for _, to := range []string{"redis://127.0.0.1:1", "postgres://app@127.0.0.1:1/db"} {
		call{}.fails(t, exitError, "policy", "status", "--to", to, "--timeout", "1s")
	}
}

// WEBLIMIT_POLICY means the same as for weblimitd: where the file is that it decides by.
func TestThePolicyOfTheService(t *testing.T) {
	t.Parallel()
	server, key := redistest.Shared(t), redistest.Prefix(t)+"limits"
	file := policyFiles(t, map[string]string{"1.yaml": limitOf(1)}) + "1.yaml"
	c := call{env: map[string]string{"WEBLIMIT_POLICY": "redis:" + key, "WEBLIMIT_REDIS": "unix://" + server.Addr(), "WEBLIMIT_BY": "ann"}}
	wants(t, c.ok(t, "policy", "publish", file), "release 1", key)
	other := call{env: map[string]string{"WEBLIMIT_POLICY_TO": "unix://" + server.Addr(), "WEBLIMIT_POLICY_NAME": key}}
	wants(t, other.ok(t, "policy", "log"), "ann")
	database := urlOfDatabase(t)
	inDatabase := call{env: map[string]string{"WEBLIMIT_POLICY": "postgres:shop", "WEBLIMIT_POSTGRES": database}}
	wants(t, inDatabase.ok(t, "policy", "publish", file, "--create"), `"shop" in PostgreSQL`)
	for policy, want := range map[string]string{
		"limits.yaml":            "names a file, which nobody publishes",
		"redis://localhost:6379": "set WEBLIMIT_POLICY_TO to the URL",
		"redis:limits":           "set WEBLIMIT_REDIS or --to",
		"postgres:limits":        "set WEBLIMIT_POSTGRES or --to",
		"":                       "set --to (WEBLIMIT_POLICY_TO)",
	} {
		wrong := call{env: map[string]string{"WEBLIMIT_POLICY": policy}}
		wants(t, wrong.fails(t, exitUsage, "policy", "log"), want)
	}
}
