package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// shows fails the test unless docs/use/headers.md has a text.
func shows(t *testing.T, text string) {
	t.Helper()
	if !strings.Contains(documents.Read(t, "use/headers.md"), text) {
		t.Errorf("docs/use/headers.md does not have this:\n%s", text)
	}
}

// docs/use/headers.md shows the bytes of a 200 and a 429: all of them in Draft11, and what differs
// in the other dialects.
func TestDocsShowEachDialect(t *testing.T) {
	t.Parallel()
	notShown := regexp.MustCompile(`(?m)^(Date|Connection): .*\n`)
	same := regexp.MustCompile(`(?m)^(Content|Cache)-.*\n`)
	for _, d := range dialects {
		all := record(t, d.headers, 6, perClient())
		var block strings.Builder
		for _, raw := range [][]byte{all[0], all[5]} {
			head, body, _ := strings.Cut(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n\n")
			head = notShown.ReplaceAllString(head+"\n", "")
			if d.name == "Draft11" {
				block.WriteString("```http\n" + head + "\n" + strings.TrimSuffix(body, "\n") + "\n```\n\n")
			} else {
				block.WriteString("```http\n" + same.ReplaceAllString(head, "") + "```\n\n")
			}
		}
		shows(t, "### "+d.name+"\n\n"+block.String())
	}
}

// The table of docs/use/headers.md is the one that the tests of this package check.
func TestDocsShowWhatClientsDo(t *testing.T) {
	t.Parallel()
	shows(t, table(t))
}

func table(tb testing.TB) string {
	tb.Helper()
	var b strings.Builder
	b.WriteString("| Client | Version | `Retry-After` | above its bound |")
	for _, d := range dialects {
		fmt.Fprintf(&b, " `%s` |", d.name)
	}
	b.WriteString("\n| --- | --- | --- | --- |" + strings.Repeat(" --- |", len(dialects)) + "\n")
	for _, c := range clients {
		bound := c.bound
		if bound == "" {
			bound = ignores
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.name, version(tb, c), c.after, bound, strings.Join(c.fields[:], " | "))
	}
	return b.String()
}

// version returns the version of a client that the tests run, or the oldest for those that
// come with the system.
func version(tb testing.TB, c client) string {
	tb.Helper()
	switch {
	case c.source == "npm":
		name, _, _ := strings.Cut(c.name, " ")
		var lock struct {
			Packages map[string]struct{ Version string }
		}
		text, err := os.ReadFile("testdata/node/package-lock.json")
		if err == nil {
			err = json.Unmarshal(text, &lock)
		}
		if err != nil {
			tb.Fatal(err)
		}
		return lock.Packages["node_modules/"+name].Version
	case strings.Contains(c.source, "/"):
		text := must.Get(os.ReadFile("../go.mod"))(tb)
		_, rest, _ := strings.Cut(string(text), "\t"+c.source+" v")
		v, _, _ := strings.Cut(rest, "\n")
		return v
	}
	return c.source + " or later"
}

// The programs of the system are as new as the table says.
func TestSystemClientsAreNewEnough(t *testing.T) {
	t.Parallel()
	for _, c := range clients {
		var is func(testing.TB) string
		switch c.runner.kind {
		case "curl":
			is = func(tb testing.TB) string {
				need(tb, "curl", "--version")
				out, _ := exec.Command("curl", "--version").Output()
				return string(out)
			}
		case "python3":
			is = func(tb testing.TB) string {
				_, version := needPython(tb)
				return version
			}
		default:
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if is := is(t); number(is) < number(c.source) {
				t.Errorf("%s is %s, want %s or later", c.name, is, c.source)
			}
		})
	}
}

// number makes 7066 of 7.66.
func number(text string) int {
	found := regexp.MustCompile(`(\d+)\.(\d+)`).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2])
	return major*1000 + minor
}

// The loop of docs/use/headers.md for JavaScript is the one that TestLoopComesBackInTime runs.
func TestDocsShowTheLoop(t *testing.T) {
	t.Parallel()
	source := must.Get(os.ReadFile("testdata/node/loop.mjs"))(t)
	shows(t, "```js\n"+string(source)+"```\n")
}

// The loop waits if it is told how long, and that is not too long.
func TestLoopComesBackInTime(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Start()
	var runs []run
	for scene, expect := range map[string]string{"retry-after": waits, "nothing": givesUp, "hour": givesUp} {
		runs = append(runs, newRun(s.URL, scene, "Draft11", loop, expect))
	}
	inNode.send(t, runs)
	for _, r := range runs {
		r.check(t, s.seen(r.path))
	}
}

// docs/use/headers.md shows what XQuota adds, and the sentence of a quota that is used up.
func TestDocsShowXQuota(t *testing.T) {
	t.Parallel()
	plan := core.PerMonth(100_000, time.UTC).By(keyfuncs.Tenant("tenant")).Named("plan")
	first := record(t, core.Draft11|core.XQuota, 1, plan)[0]
	denied := record(t, core.Draft11|core.XQuota, 2, plan.Cost(100_000))[1]
	notShown := regexp.MustCompile(`(?m)^(Date|Connection|Content-.*|Cache-.*): .*\n`)
	for i, raw := range [][]byte{first, denied} {
		head, body, _ := strings.Cut(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n\n")
		block := notShown.ReplaceAllString(head+"\n", "")
		if i == 1 {
			block += "\n" + strings.Replace(strings.TrimSuffix(body, "\n"), " units ", " requests ", 1) + "\n"
		}
		shows(t, "```http\n"+block+"```\n")
	}
}
