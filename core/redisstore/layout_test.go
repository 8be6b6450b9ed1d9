package redisstore

// Records of the stored layout, as files: what the store wrote and answered for fixed sequences of
// calls. See docs/run/compatibility.md. The sequences are in layoutcases_test.go.

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

var update = flag.Bool("update", false, "write records of the stored layout where a file is missing")

// What this version writes is, byte for byte, what the files say. So an older process with the
// same version of the layout can read it, and the two can run side by side.
func TestTheStoreWritesTheLayoutOfItsVersion(t *testing.T) {
	t.Parallel()
	for _, c := range layoutCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLayout(t)
			c.run(l)
			got := fmt.Sprintf("# %s\n%s", c.about, l.text())
			file := layoutFile(fmt.Sprintf("layout%d", script.Version), c.name)
			want, err := os.ReadFile(file)
			if errors.Is(err, os.ErrNotExist) && *update {
				err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644))
				want = []byte(got)
			}
			if err != nil {
				t.Fatalf("%v\nNew version of the layout, or new sequence: write its file by `go test ./core/redisstore -run Layout -update`. Files of older versions stay.", err)
			}
			if got != string(want) {
				t.Errorf("%s differs. Processes of the last release run beside this one, so a stored record changes only under a new version of the layout:\n%s",
					file, firstDifference(string(want), got))
			}
		})
	}
}

// This version reads what earlier ones have stored: before each step of a sequence, the keys
// are set to what the file says that the step before has left.
func TestTheStoreReadsEveryLayout(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(layoutFile("layout*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no records of stored values: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(filepath.Base(filepath.Dir(file))+"/"+name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(layoutCases, func(c layoutCase) bool { return c.name == name })
			if i < 0 {
				t.Fatalf("%s has no sequence of this name: those of released files must stay", file)
			}
			text := must.Get(os.ReadFile(file))(t)
			l := newLayout(t)
			l.recorded = parseLayout(t, string(text))
			layoutCases[i].run(l)
			if len(l.steps) != len(l.recorded) {
				t.Errorf("%d steps, but the file has %d", len(l.steps), len(l.recorded))
			}
			for i, step := range l.steps[:min(len(l.steps), len(l.recorded))] {
				if want := l.recorded[i]; step.did != want.did {
					t.Errorf("another answer to a stored value, step %d:\ngot\n%s\nwant\n%s", i+1, step.did, want.did)
				}
			}
		})
	}
}

// Each algorithm, and each other kind of record, is the first record of a value on file.
func TestEveryAlgorithmIsOnFile(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob(layoutFile(fmt.Sprintf("layout%d", script.Version), "*")))(t)
	found := map[store.Algorithm]bool{}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		for _, step := range parseLayout(t, string(text)) {
			for _, value := range step.values {
				if value[1] >= byte(counting.ShareRecord)<<4 && len(value) > 40 { // it begins with its kind
					found[counting.ShareRecord] = true
				}
				found[store.Algorithm(value[8]>>4)] = true // after the version and a limit's id
			}
		}
	}
	for a := store.Algorithm(1); a <= counting.LastAlgorithm; a++ {
		if !found[a] {
			t.Errorf("no sequence stores a record of algorithm %d: add one to layoutcases_test.go, and its file by -update", a)
		}
	}
}

// firstLayout is the first one that a release has: before, limits were told apart by 32 bits.
const firstLayout = 2

// Files of an earlier layout stay when a new one comes.
func TestNoLayoutIsForgotten(t *testing.T) {
	t.Parallel()
	for version := firstLayout; version <= script.Version; version++ {
		if files, err := filepath.Glob(layoutFile(fmt.Sprintf("layout%d", version), "*")); err != nil || len(files) == 0 {
			t.Errorf("the files of layout %d are gone: %v", version, err)
		}
	}
}

func layoutFile(folder, name string) string {
	return filepath.Join("testdata", folder, name+".txt")
}

// layout runs a sequence and records it.
type layout struct {
	t        *testing.T
	client   *redis.Client
	store    *Store
	prefix   string
	now      int64
	waited   time.Duration // since the last step
	steps    []layoutStep
	recorded []layoutStep // of the file that is to be read; nil when writing
	history  string       // the server's, as records have it, which files call historyWord
}

// historyWord stands in files for the history of a server, which is random. It has as many bytes.
const historyWord = "history"

// layoutStep is one call.
type layoutStep struct {
	did    string            // the call and its answers, in lines
	values map[string]string // what it left in Redis, by key without the store's prefix
}

// layoutStart is when sequences begin: Monday, 18 January 2027, 09:20:00 UTC.
const layoutStart = 1_800_264_000_000_000

func newLayout(t *testing.T) *layout {
	l := &layout{t: t, client: redistest.Shared(t).Client(t), prefix: redistest.Prefix(t), now: layoutStart}
	l.store = NewAt(l.client, func() int64 { return l.now }, Config{Prefix: l.prefix})
	info := must.Get(l.client.InfoMap(t.Context(), "replication").Result())(t)
	history := must.Get(hex.DecodeString(info["Replication"]["master_replid"][:12]))(t)
	slices.Reverse(history) // little-endian
	l.history = string(append(history, 0))
	return l
}

// charged is what a call of take or renew has charged, for the call that settles it.
type charged struct {
	checks  []store.Check
	results []store.Result
}

func (l *layout) wait(d time.Duration) {
	l.now += d.Microseconds()
	l.waited += d
}

func (l *layout) take(checks ...store.Check) charged {
	return l.ask("take", charged{checks: checks}, l.store.Take)
}

func (l *layout) peek(checks ...store.Check) {
	l.ask("peek", charged{checks: checks}, l.store.Peek)
}

func (l *layout) charge(checks ...store.Check) {
	l.ask("charge", charged{checks: checks}, l.store.Charge)
}

func (l *layout) refund(c charged) { l.ask("refund", c, l.store.Refund) }

func (l *layout) renew(c charged) charged { return l.ask("renew", c, l.store.Renew) }

// tell restores an account in the present period.
func (l *layout) tell(check store.Check, used, generation, expect int64) {
	var account store.Account
	peek := []store.Check{{Key: check.Key, Rule: check.Rule, Account: &account}}
	must.OK(l.t, l.store.Peek(l.t.Context(), peek, make([]store.Result, 1)))
	from := []counting.Restoration{{Used: used, Generation: generation, Expect: expect, Ends: check.Rule.PeriodEnd(l.now), History: account.History}}
	l.ask(fmt.Sprintf("restore %d used as generation %d after %d,", used, generation, expect), charged{checks: []store.Check{check}},
		func(ctx context.Context, checks []store.Check, results []store.Result) error {
			return l.store.Restore(ctx, checks, from, results)
		})
}

func (l *layout) reset(checks ...store.Check) {
	l.do("reset", checks, func() error { return l.store.Reset(l.t.Context(), checks) })
}

func (l *layout) block(d time.Duration, checks ...store.Check) {
	l.do(fmt.Sprintf("block for %v", d), checks, func() error { return l.store.Block(l.t.Context(), checks, d) })
}

func (l *layout) unblock(checks ...store.Check) {
	l.do("unblock", checks, func() error { return l.store.Unblock(l.t.Context(), checks) })
}

// blocks lists the blocks under a rule.
func (l *layout) blocks(rule *store.Rule) {
	l.restore()
	did := l.begin("blocks", nil)
	for b, err := range l.store.Blocks(l.t.Context(), []*store.Rule{rule}) {
		if err != nil {
			l.t.Fatal(err)
		}
		did += fmt.Sprintf("\n  %s of %s, level %d, ends in %v", b.Key, b.Limit, b.Level, b.Until.Sub(time.UnixMicro(l.now)))
	}
	l.end(did)
}

// tentative charges a check as one of several slots, and leaves a hold.
func (l *layout) tentative(check store.Check) {
	l.do("take as one of several slots", []store.Check{check}, func() error {
		tentative(l.t, l.store, check)
		return nil
	})
}

func (l *layout) do(what string, checks []store.Check, call func() error) {
	l.t.Helper()
	l.restore()
	if err := call(); err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	l.end(l.begin(what, checks))
}

// ask calls one of the methods that have results, and records them.
func (l *layout) ask(what string, c charged, call func(context.Context, []store.Check, []store.Result) error) charged {
	l.t.Helper()
	l.restore()
	after := charged{checks: c.checks, results: slices.Clone(c.results)}
	if after.results == nil {
		after.results = make([]store.Result, len(c.checks))
	}
	asked, accounts := slices.Clone(c.checks), make([]store.Account, len(c.checks))
	for i := range accounts {
		asked[i].Account = &accounts[i]
	}
	if err := call(l.t.Context(), asked, after.results); err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	did := l.begin(what, c.checks)
	for i, r := range after.results {
		did += fmt.Sprintf("\n  %s: %s, remaining %d, retry after %v, window %v, reset after %v",
			c.checks[i].Rule.Name, outcome(r), r.Remaining, r.RetryAfter, r.Window, r.ResetAfter)
		if a := accounts[i]; a.Position > 0 {
			did += fmt.Sprintf(", used %d, position %d", a.Used, a.Position)
		}
	}
	l.end(did)
	return after
}

func outcome(r store.Result) string {
	words := "denied"
	if r.Allowed {
		words = "allowed"
	}
	for word, is := range map[string]bool{" charged": r.Charged, " blocked": r.Blocked, " repeated": r.Repeated} {
		if is { // at most one of them is
			words += word
		}
	}
	return words
}

// begin returns the line of a call.
func (l *layout) begin(what string, checks []store.Check) string {
	asked := make([]string, 0, len(checks))
	for _, c := range checks {
		one := fmt.Sprintf("%d of %s for %s", c.Cost, c.Rule.Name, c.Key)
		if c.Once != nil {
			one += fmt.Sprintf(" as %s", c.Once)
		}
		asked = append(asked, one)
	}
	line := fmt.Sprintf("%v later: %s %s", l.waited, what, strings.Join(asked, ", "))
	l.waited = 0
	return strings.TrimSpace(line)
}

// restore sets the keys to what the file says, if there is one.
func (l *layout) restore() {
	if l.recorded == nil || len(l.steps) == 0 || len(l.steps) > len(l.recorded) {
		return
	}
	for _, key := range l.keys() {
		l.client.Del(l.t.Context(), key)
	}
	for key, value := range l.recorded[len(l.steps)-1].values {
		must.OK(l.t, l.client.Set(l.t.Context(), l.prefix+key, strings.ReplaceAll(value, historyWord, l.history), time.Hour).Err())
	}
}

// end records a step and what it has left.
func (l *layout) end(did string) {
	step := layoutStep{did: did, values: map[string]string{}}
	for _, key := range l.keys() {
		value := must.Get(l.client.Get(l.t.Context(), key).Result())(l.t)
		must.Equal(l.t, "a value of version", value[0], script.Version)
		step.values[strings.TrimPrefix(key, l.prefix)] = strings.ReplaceAll(value, l.history, historyWord)
	}
	l.steps = append(l.steps, step)
}

func (l *layout) keys() []string {
	keys := must.Get(l.client.Keys(l.t.Context(), l.prefix+"*").Result())(l.t)
	slices.Sort(keys)
	return keys
}

// text returns the steps as a file has them.
func (l *layout) text() string {
	var b strings.Builder
	for _, step := range l.steps {
		fmt.Fprintf(&b, "\n%s\n", step.did)
		keys := make([]string, 0, len(step.values))
		for key := range step.values {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			fmt.Fprintf(&b, "%s %s\n", storedMark+key, hex.EncodeToString([]byte(step.values[key])))
		}
	}
	return b.String()
}

// storedMark begins the lines of stored values.
const storedMark = "= "

// parseLayout is the inverse of text.
func parseLayout(t *testing.T, text string) (steps []layoutStep) {
	blocks := strings.Split(strings.TrimSuffix(text, "\n"), "\n\n")
	for _, block := range blocks[1:] { // the first is the heading
		step := layoutStep{values: map[string]string{}}
		for line := range strings.SplitSeq(block, "\n") {
			stored, is := strings.CutPrefix(line, storedMark)
			if !is {
				step.did += line + "\n"
				continue
			}
			space := strings.LastIndexByte(stored, ' ') // keys can have spaces
			key, value := stored[:max(space, 0)], stored[space+1:]
			decoded, err := hex.DecodeString(value)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			step.values[key] = string(decoded)
		}
		step.did = strings.TrimSuffix(step.did, "\n")
		steps = append(steps, step)
	}
	return steps
}

// firstDifference shows the first lines that differ.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, x, y)
		}
	}
	return ""
}
