package policy_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/policy"
)

// blocks returns the blocks of a language in a part of a document.
func blocks(t *testing.T, page, from, language string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(text), from)
	if !found {
		t.Fatalf("%s has no %q", page, from)
	}
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(part, -1) {
		all = append(all, match[1])
	}
	return all
}

// The steps of docs/rollout.md by a policy file: in shadow mode nobody is denied, then 5 % of users are,
// then all; and the differences are told as the page says.
func TestARollOutByFile(t *testing.T) {
	t.Parallel()
	const page, part = "../docs/rollout.md", "## By a policy file"
	files, said := blocks(t, page, part, "yaml"), blocks(t, page, part, "text")
	if len(files) != 3 || len(said) != 2 {
		t.Fatalf("the page has %d files and %d differences", len(files), len(said))
	}
	from := &source{}
	from.text.Store(&files[0])
	set, err := policy.From(from, quiet())
	if err != nil {
		t.Fatal(err)
	}
	store, now := core.NewMemory(), time.Now().UnixMicro()
	testclock.Set(store, func() int64 { return now }) // nothing comes back meanwhile
	l := limiterOf(t, set, store, "api")
	const users = 400
	for step, bounds := range [][2]int{{0, 0}, {users / 50, users / 10}, {users, users}} {
		if step > 0 {
			changes, err := policy.Diff(policy.File{Name: "before", Text: []byte(files[step-1])}, policy.File{Name: "after", Text: []byte(files[step])})
			if err != nil {
				t.Fatal(err)
			}
			var lines strings.Builder
			for _, c := range changes {
				fmt.Fprintln(&lines, c)
			}
			if lines.String() != said[step-1] {
				t.Errorf("to version %d it says\n%swant\n%s", step+1, &lines, said[step-1])
			}
			from.text.Store(&files[step])
			if err := set.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		denied, wouldBe := 0, 0
		for i := range users {
			r := keyfuncs.Values{"user": fmt.Sprintf("%d-%d", step, i)}
			var last core.Decision
			for range 300 {
				last = l.Allow(r)
			}
			if !last.Allowed {
				denied++
			}
			if last.Reason == core.ReasonShadowed {
				wouldBe++
			}
		}
		if denied < bounds[0] || denied > bounds[1] || denied+wouldBe != users {
			t.Errorf("version %d: of %d users, %d are denied and %d would be, want %d to %d denied", step+1, users, denied, wouldBe, bounds[0], bounds[1])
		}
	}
}

// Each policy file of docs/policy.md loads, and its table of requests is decided as it says.
func TestTheFilesOfTheDocument(t *testing.T) {
	t.Parallel()
	files := blocks(t, "../docs/policy.md", "# Policy files", "yaml")
	if len(files) != 2 {
		t.Fatalf("the page has %d blocks of YAML", len(files))
	}
	options := policy.Options{AnyName: true, Env: func(string) (string, bool) { return "0123456789abcdef", true }}
	file := policy.File{Name: "policy.md", Text: []byte(files[0])}
	trials, err := policy.Test(file, policy.File{Name: "policy.md", Text: []byte(files[1])}, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, trial := range trials {
		for _, f := range trial.Failures {
			t.Errorf("%s: %s", trial.Name, f)
		}
	}
}
