package policy_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/policy"
)

// blocks returns the blocks of a language in a part of a document.
func blocks(t *testing.T, page, from, language string) (all []string) {
	t.Helper()
	_, part, found := strings.Cut(string(must.Get(os.ReadFile(page))(t)), from)
	if !found {
		t.Fatalf("%s has no %q", page, from)
	}
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(part, -1) {
		all = append(all, match[1])
	}
	return all
}

// The steps of docs/run/rollout.md by a policy file: in shadow mode nobody is denied, then 5 % of users are,
// then all; and the differences are told as the page says.
func TestARollOutByFile(t *testing.T) {
	t.Parallel()
	const page, part = "../docs/run/rollout.md", "## By a policy file"
	files, said := blocks(t, page, part, "yaml"), blocks(t, page, part, "text")
	if len(files) != 3 || len(said) != 2 {
		t.Fatalf("the page has %d files and %d differences", len(files), len(said))
	}
	from, set := sourceOf(t, files[0], quiet())
	store, now := core.NewMemory(), time.Now().UnixMicro()
	testclock.Set(store, func() int64 { return now }) // nothing comes back meanwhile
	l := limiterOf(t, set, store, "api")
	const users = 100
	for step, bounds := range [][2]int{{0, 0}, {users / 50, users / 10}, {users, users}} {
		if step > 0 {
			check.Equal(t, fmt.Sprintf("what is said to version %d", step+1), differences(t, files[step-1], files[step])+"\n", said[step-1])
			from.put(files[step])
			must.OK(t, set.Reload(t.Context()))
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

// Each policy file of docs/service/policy.md loads, and its table of requests is decided as it says.
func TestTheFilesOfTheDocument(t *testing.T) {
	t.Parallel()
	files := blocks(t, "../docs/service/policy.md", "# Policy files", "yaml")
	must.Equal(t, "blocks of YAML", len(files), 2)
	options := policy.Options{AnyName: true, Env: func(string) (string, bool) { return "0123456789abcdef", true }}
	file := policy.File{Name: "policy.md", Text: []byte(files[0])}
	for _, trial := range must.Get(policy.Test(file, policy.File{Name: "policy.md", Text: []byte(files[1])}, options))(t) {
		for _, f := range trial.Failures {
			t.Errorf("%s: %s", trial.Name, f)
		}
	}
}
