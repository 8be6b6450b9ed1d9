package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

func TestMistakesAreUsageErrors(t *testing.T) {
	t.Parallel()
	c := call{env: map[string]string{"WEBLIMIT_URL": "http://127.0.0.1:1/"}}
	for _, line := range []struct{ args, want string }{
		{"tpo", "Did you mean this? top"},
		{"top --bogus", "there is no such flag"},
		{"top extra", `unknown command "extra"`},
		{"peek", "accepts 1 arg"},
		{"peek a b", "accepts 1 arg"},
		{"peek --cost -1 a", "--cost"},
		{"top --interval 10ms", "--interval"},
		{"top --rows 0", "--rows"},
		{"top --timeout 1h", "--timeout"},
		{"block a", "--for"},
		{"block a --for 0s", "--for"},
		{"block a --for -5m", "--for"},
		{"block a --for 1500ms", "--for"},
		{"block a --for 1w", "--for"},
		{"block a --for -1d", "--for"},
		{"block a --for 99999999999999999999d", "--for"},
		{"top --redis redis://x --url http://y", "exclude"},
		{"top --redis http://x", "redis://"},
		{"top --redis redis://x --redis-cluster --redis-sentinel-master m", "exclude"},
		{"top --redis redis://x --cluster", "--cluster: the name is now --redis-cluster"},
		{"top --redis redis://x --user ops", "--user is for an application's page"},
		{"top --url https://x --redis-user ops", "--redis-user is for Redis"},
		{"top --redis redis://x --redis-password s3cret", "set WEBLIMIT_REDIS_PASSWORD"},
		{"quota usage --database-url postgres://x", "--database-url: the name is now --postgres"},
		{"top --url https://x/?a=b", "without ?"},
		{"top --url x", "http://"},
		{"top --url http:///x", "http://"},
	} {
		wants(t, c.fails(t, exitUsage, strings.Fields(line.args)...), line.want)
	}
	wants(t, call{}.fails(t, exitUsage, "top"), "WEBLIMIT_URL")
	both := call{env: map[string]string{"WEBLIMIT_URL": "http://x", "WEBLIMIT_REDIS": "redis://x"}}
	wants(t, both.fails(t, exitUsage, "top"), "choose")
	former := call{env: map[string]string{"WEBLIMIT_REDIS": "redis://x", "WEBLIMIT_SENTINEL_PASSWORD": "s3cret"}}
	wants(t, former.fails(t, exitUsage, "top"), "WEBLIMIT_SENTINEL_PASSWORD: the name is now WEBLIMIT_REDIS_SENTINEL_PASSWORD")
	former.ok(t, "version")
	wants(t, c.fails(t, exitUsage, "peek", ""), "empty")
	wants(t, c.fails(t, exitUsage, "peek", "-"), "empty")
	wants(t, c.fails(t, exitUsage, "\x1b[2J"), `\x1b[2J`)
}

// The variables of a page were Redis's and PostgreSQL's, too. Where no page is named they are not passed over.
func TestVariablesOfAPageAreRefused(t *testing.T) {
	t.Parallel()
	for variable, instead := range map[string]string{
		"WEBLIMIT_USER":          "set WEBLIMIT_REDIS_USER",
		"WEBLIMIT_PASSWORD":      "set WEBLIMIT_REDIS_PASSWORD",
		"WEBLIMIT_PASSWORD_FILE": "set WEBLIMIT_REDIS_PASSWORD_FILE",
		"WEBLIMIT_CACERT":        "set WEBLIMIT_REDIS_CACERT",
	} {
		c := call{env: map[string]string{"WEBLIMIT_REDIS": "rediss://127.0.0.1:1", variable: "x"}}
		wants(t, c.fails(t, exitUsage, "top"), variable+" is for an application's page", instead)
	}
	table := []string{"policy", "log", "--to", "postgres://ops@127.0.0.1:1/app"}
	wants(t, call{env: map[string]string{"WEBLIMIT_PASSWORD_FILE": "x"}}.fails(t, exitUsage, table...), "set WEBLIMIT_POSTGRES_PASSWORD_FILE")
	wants(t, call{}.fails(t, exitUsage, append(table, "--password-file", "x")...), "--postgres-password-file")
	wants(t, call{}.fails(t, exitUsage, "quota", "usage", "--postgres", "postgres://127.0.0.1:1/app", "--cacert", "x"), "--cacert is for an application's page")
	both := call{env: map[string]string{"WEBLIMIT_URL": "https://x", "WEBLIMIT_USER": "ops", "WEBLIMIT_PASSWORD": "s3cret"}}
	wants(t, both.fails(t, exitError, "top", "--redis", "redis://127.0.0.1:1", "--timeout", "1s"), "127.0.0.1:1")
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for in, want := range map[int64]string{
		-5: "0s", 0: "0s", 1: "1ms", 999: "999ms", 1000: "1s", 1001: "2s", 59_000: "59s", 59_001: "1m", 60_000: "1m", 90_000: "1m30s",
		3_599_000: "59m59s", 3_599_001: "1h", 3_600_000: "1h", 7_800_000: "2h10m", 86_399_000: "1d", 86_400_000: "1d", 90_000_000: "1d1h",
		1 << 62: "more than 9999d",
	} {
		check.Equal(t, fmt.Sprintf("%d ms", in), lasting(millis(in)), want)
	}
	for in, want := range map[string]string{"90s": "1m30s", "7d": "7d", "12h": "12h"} {
		if d, err := parseLength(in); err != nil || lasting(d) != want {
			t.Errorf("%s is %v, %v", in, d, err)
		}
	}
}

func TestVersionAndCompletion(t *testing.T) {
	t.Parallel()
	wants(t, call{}.ok(t, "version"), "weblimit v")
	wants(t, call{}.ok(t, "version", "--json"), `"version": "v`)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		wants(t, call{}.ok(t, "completion", shell), "weblimit")
	}
	if out := replay(t).run(t, "__complete", "reset", "user:1", "--limit", "").out; !strings.Contains(out, "login\n") {
		t.Errorf("--limit is completed by %q", out)
	}
	// Without anything to ask, completion is quiet.
	if r := (call{}).run(t, "__complete", "reset", "user:1", "--limit", ""); r.code != exitOK || strings.Contains(r.out, "login") {
		t.Errorf("completion without a page: exit code %d, %s%s", r.code, r.out, r.err)
	}
}
