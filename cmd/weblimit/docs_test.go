package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const page = "../../docs/command.md"

// The output in docs/command.md is what the command prints for the answers of a real page, in testdata.
// With -record it is written anew.
func TestDocsShowRealOutput(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	c := replay(t)
	shown := 0
	fresh := regexp.MustCompile("(?s)```console\n\\$ weblimit ([^\n]*)\n(.*?)```").ReplaceAllStringFunc(string(text), func(block string) string {
		shown++
		command, _, _ := strings.Cut(strings.TrimPrefix(block, "```console\n$ weblimit "), "\n")
		r := c.run(t, strings.Fields(command)...)
		if r.err != "" {
			t.Errorf("weblimit %s: %s", command, r.err)
		}
		out := strings.ReplaceAll(r.out, c.env["WEBLIMIT_URL"], "https://app.example.com/ops/limits")
		want := "```console\n$ weblimit " + command + "\n" + out + "```"
		if want != block && !*record {
			t.Errorf("docs/command.md shows\n%s\nand the command prints\n%s", block, want)
		}
		return want
	})
	if shown < 8 {
		t.Errorf("docs/command.md shows %d commands", shown)
	}
	if *record {
		if err := os.WriteFile(page, []byte(fresh), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Each command and flag is in the page, and each is explained by --help with an example.
func TestDocsNameAllCommandsAndFlags(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	help := call{}.ok(t, "--help")
	for _, name := range []string{"top", "peek", "explain", "reset", "block", "unblock", "blocks", "suggest", "bench-redis"} {
		wantsOne(t, string(text), name)
		wants(t, string(source), "//	weblimit "+name)
		wants(t, help, "\n  "+name+" ")
		wants(t, call{}.ok(t, name, "--help"), "Examples:\n  weblimit "+name)
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
		t.Errorf("docs/command.md does not name %s", name)
	}
}
