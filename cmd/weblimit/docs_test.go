package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota"
)

const page = "../../docs/run/command.md"

// The output in docs/run/command.md is what the command prints for the answers of a real page, in testdata.
// With -record it is written anew.
func TestDocsShowRealOutput(t *testing.T) {
	c := replay(t)
	shown := compareDocs(t, false, func(args ...string) string {
		r := c.run(t, args...)
		if r.err != "" {
			t.Errorf("weblimit %s: %s", args, r.err)
		}
		return strings.ReplaceAll(r.out, c.env["WEBLIMIT_URL"], "https://app.example.com/ops/limits")
	})
	if shown < 8 {
		t.Errorf("docs/run/command.md shows %d commands", shown)
	}
}

// The same for the commands about quotas, on a real PostgreSQL and Redis. It is another month now.
func TestDocsShowRealQuotas(t *testing.T) {
	b := startBiller(t, quota.Config{})
	s := redisstore.New(b.rdb, redisstore.Config{Prefix: b.prefix})
	courier := must.Get(quota.Open(t.Context(), b.pool, quota.Config{Store: s, FlushEvery: 50 * time.Millisecond, Timeout: time.Minute, Notices: []quota.Channel{{
		Name: "billing", Deliver: func(context.Context, quota.Notice) error {
			return &quota.DeliveryError{Err: errors.New("410 Gone"), Permanent: true}
		},
	}}}))(t)
	t.Cleanup(func() { _ = courier.Close(context.Background()) })
	b.spend(t, "tenant:acme", 64)
	b.spend(t, "tenant:globex", 12)
	b.spend(t, "tenant:initech", 31)
	b.flush(t)
	wait.Until(t, "a notice dies", func() bool { return b.ops.run(t, "quota", "notices", "--dead").code == exitDenied })
	b.forget(t, "tenant:initech")
	b.spend(t, "tenant:acme", 7)
	usual := strings.NewReplacer(
		b.ops.env["WEBLIMIT_REDIS"], "rediss://redis.example.com:6379",
		b.pool.Config().ConnConfig.Host+"/"+b.pool.Config().ConnConfig.Database, "db.example.com/app",
	)
	dates := regexp.MustCompile(`[0-9-]{10}( to [0-9-]{10})?( \d\d:\d\d:\d\d UTC)?`)
	shown := compareDocs(t, true, func(args ...string) string {
		r := b.ops.run(t, args...)
		if r.err != "" {
			t.Errorf("weblimit %s: %s", args, r.err)
		}
		return dates.ReplaceAllStringFunc(usual.Replace(r.out), func(text string) string {
			switch {
			case strings.Contains(text, " to "):
				return "2026-11-01 to 2026-11-30"
			case strings.Contains(text, "UTC"):
				return "2026-11-22 09:41:21 UTC"
			}
			return "2026-11-22"
		})
	})
	if shown < 6 {
		t.Errorf("docs/run/command.md shows %d commands about quotas", shown)
	}
}

// compareDocs compares what docs/run/command.md shows of commands, those about quotas or the others, with
// what they print, and returns how many there are.
func compareDocs(t *testing.T, quotas bool, run func(args ...string) string) (shown int) {
	t.Helper()
	text := must.Get(os.ReadFile(page))(t)
	fresh := regexp.MustCompile("(?s)```console\n\\$ weblimit ([^\n]*)\n(.*?)```").ReplaceAllStringFunc(string(text), func(block string) string {
		command, _, _ := strings.Cut(strings.TrimPrefix(block, "```console\n$ weblimit "), "\n")
		if strings.HasPrefix(command, "quota ") != quotas {
			return block
		}
		shown++
		want := "```console\n$ weblimit " + command + "\n" + run(words(command)...) + "```"
		if want != block && !*record {
			t.Errorf("docs/run/command.md shows\n%s\nand the command prints\n%s", block, want)
		}
		return want
	})
	if *record {
		must.OK(t, os.WriteFile(page, []byte(fresh), 0o600))
	}
	return shown
}

// words splits a command line as a shell does, as far as that is needed here.
func words(line string) (all []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			all = append(all, part)
			continue
		}
		all = append(all, strings.Fields(part)...)
	}
	return all
}

// Each command and flag is in the page, and each is explained by --help with an example.
func TestDocsNameAllCommandsAndFlags(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(page))(t)
	source := must.Get(os.ReadFile("main.go"))(t)
	help := call{}.ok(t, "--help")
	for _, command := range new(app).root().Commands() {
		name := command.Name()
		if name == "version" {
			continue
		}
		about := call{}.ok(t, name, "--help")
		wantsOne(t, string(text), name)
		wants(t, string(source), "//	weblimit "+name)
		wants(t, help, "\n  "+name+" ")
		wants(t, about, "Examples:\n  weblimit "+name)
		for _, sub := range command.Commands() {
			name := name + " " + sub.Name()
			about := call{}.ok(t, append(strings.Fields(name), "--help")...)
			wantsOne(t, string(text), name)
			wants(t, about, "weblimit "+name)
			help += about
		}
	}
	for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(help, -1) {
		if flag != "--help" {
			wantsOne(t, string(text), flag)
		}
	}
	for _, name := range regexp.MustCompile(`WEBLIMIT_[A-Z_]+`).FindAllString(help, -1) {
		wantsOne(t, string(text), name)
	}
}

func wantsOne(t *testing.T, page, name string) {
	t.Helper()
	if !strings.Contains(page, name) {
		t.Errorf("docs/run/command.md does not name %s", name)
	}
}
