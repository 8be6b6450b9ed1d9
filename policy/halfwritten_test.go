package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/internal/wholefile"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/policy"
)

// A file that is written in place, line by line, is valid behind each line, with fewer limits. None of
// these states may decide, whether the file is watched or reloaded.
func TestAHalfWrittenFileDecidesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const text = "version: %s\npolicies:\n  api:\n    limits:\n      client: {limit: 1000/hour, by: ip}\n      login: {limit: 5/hour, by: ip}\n"
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(dir, "limits.yaml")
		written(t, name, fmt.Sprintf(text, "v1"))
		set := must.Get(policy.Load(name, quiet()))(t)
		l := limiterOf(t, set, core.NewMemory(), "api")
		defer set.Watch(t.Context())()
		attempts := 0
		allowed := func() {
			for range 20 {
				if l.Allow(keyfuncs.Values{"ip": "192.0.2.1"}).Allowed {
					attempts++
				}
			}
		}
		lines := strings.SplitAfter(fmt.Sprintf(text, "v2"), "\n")
		for i := range lines { // a quarter of a second per line, for more than a look's time in all
			write(t, name, strings.Join(lines[:i+1], ""))
			time.Sleep(250 * time.Millisecond)
			allowed()
		}
		if attempts != 5 {
			t.Errorf("%d attempts to log in, with 5 an hour", attempts)
		}
		wait.Until(t, "the whole file decides", func() bool { return set.Status().Version.Name == "v2" })

		go func() {
			for i := range lines {
				write(t, name, strings.Replace(strings.Join(lines[:i+1], ""), "v2", "v3", 1))
				time.Sleep(100 * time.Millisecond)
			}
		}()
		time.Sleep(450 * time.Millisecond) // the last limit is missing
		must.OK(t, set.Reload(t.Context()))
		check.Equal(t, "what decides after a reload", set.Status().Version.Name, "v3")
		allowed()
		check.Equal(t, "attempts to log in after a reload", attempts, 5)
	})
}

// A file whose writer pauses for longer than it is waited for needs a mark at its end.
func TestAFileWithoutItsEndMark(t *testing.T) {
	t.Parallel()
	options := quiet()
	options.EndMark = true
	set := must.Get(policy.Parse("x.yaml", []byte(simple(1)+"...\n"), options))(t)
	check.Equal(t, "version", set.Status().Version.Name, "v1")
	check.Fails(t, "a file that is cut off", check.ErrorOf(policy.Parse("x.yaml", []byte(simple(1)), options)), `does not end with the line "..."`)
	const json = `{"policies": {"api": {"limits": {"client": {"limit": "5/hour", "by": "ip"}}}}}`
	check.OK(t, check.ErrorOf(policy.Parse("x.json", []byte(json), options)))
	for i := range json { // it shows by itself that it is cut off
		if _, err := policy.Parse("x.json", []byte(json[:i]), quiet()); err == nil {
			t.Errorf("%q is a policy file", json[:i])
		}
	}
}

// Whoever asks for a reload waits no longer than its context allows, for a source, for a reload that has
// begun before, and for a secret.
func TestAReloadHonoursItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &hangingSource{text: simple(1)}
		set := must.Get(policy.From(from, quiet()))(t)
		from.hangs = true
		first := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { first <- set.Reload(ctx) }()
		synctest.Wait()
		second, cancelSecond := context.WithTimeout(t.Context(), time.Second)
		defer cancelSecond()
		began := time.Now()
		check.Is(t, "behind another", set.Reload(second), context.DeadlineExceeded)
		check.Equal(t, "how long it took", time.Since(began), time.Second)
		cancel()
		check.Is(t, "the first", <-first, context.Canceled)
		from.hangs, from.text = false, simple(2)
		must.OK(t, set.Reload(t.Context()))
		check.Equal(t, "what decides", set.Status().Version.Name, "v2")
	})
}

// hangingSource is a Source that can hang until its context ends.
type hangingSource struct {
	text  string
	hangs bool
}

func (s *hangingSource) Load(ctx context.Context) (policy.File, error) {
	if s.hangs {
		<-ctx.Done()
		return policy.File{}, ctx.Err()
	}
	return policy.File{Name: "limits.yaml", Text: []byte(s.text)}, nil
}

func (s *hangingSource) Watch(ctx context.Context, _ func()) { <-ctx.Done() }

// Some files of /proc say that they are regular and empty, and a read of them never ends.
func TestASecretThatNeverEnds(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/kmsg"); err != nil {
		t.Skip(err)
	}
	text := strings.Replace(simple(1), "    limits:", "    key_secret: \"${file:/proc/kmsg}\"\n    limits:", 1)
	check.Fails(t, "a secret of the kernel", check.ErrorOf(policy.Parse("x.yaml", []byte(text))), "/proc/kmsg")
}

// A file is judged by its size before it is parsed: a reader of YAML takes up to a kilobyte per value.
func TestAFileOfManyValuesIsRefusedBeforeItIsParsed(t *testing.T) { // not parallel: it measures memory
	const size = 8 << 20
	repeated := func(before, part, after string) []byte {
		return []byte(before + strings.Repeat(part, (size-len(before)-len(after))/len(part)) + after)
	}
	for what, text := range map[string][]byte{
		"items of a line":     repeated("policies: [", "a,", "a]"),
		"items of lines":      repeated("policies:\n", "- a\n", ""),
		"lists of lists":      repeated("policies:\n", "- - - - - a\n", ""),
		"empty lists":         repeated("policies: [", "[],", "a]"),
		"empty maps":          repeated("policies: [", "{},", "a]"),
		"fields without name": repeated("policies: {", "? ,", "a}"),
		"names on lines":      repeated("policies:\n", "? \n", ""),
		"fields in quotes":    repeated("policies: {", `"a":1,`, "a: 1}"),
		"anchors":             repeated("policies: [", "&a ,", "a]"),
		"commented items":     repeated("policies:\n", "- a #b\n", ""),
		"blanks of Unicode":   repeated("policies:\n", "-\u2028", "a"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := policy.Parse("x.yaml", text)
		runtime.ReadMemStats(&after)
		check.Fails(t, what, err, "more than 300000")
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 16 {
			t.Errorf("%s: %d MB for a file that is refused", what, took)
		}
	}
}

// No text has more values than its marks allow.
func TestMarksBoundTheValues(t *testing.T) {
	t.Parallel()
	parts := []string{",", "[", "]", "{", "}", ":", ": ", "- ", "-", "? ", "\n", "\n  ", " ", "a", "'b'", "\"c\"", "#", " # d", "&e ", "*e", "!!str ", "|\n  ", "\u2028", "\u0085", "\t", "---\n", "...\n"}
	random := rand.New(rand.NewPCG(1, 2))
	parsed := 0
	for range long.Rounds(8000, 2_000_000) {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		var document yaml.Node
		if yaml.Unmarshal([]byte(b.String()), &document) != nil {
			continue
		}
		parsed++
		if values, most := countNodes(&document), 3*wholefile.Marks([]byte(b.String()))+2; values > most {
			t.Errorf("%q has %d values, at most %d by its marks", b.String(), values, most)
		}
	}
	if parsed < 1000 {
		t.Errorf("only %d texts were YAML", parsed)
	}
}

func countNodes(n *yaml.Node) int {
	all := 1
	for _, child := range n.Content {
		all += countNodes(child)
	}
	return all
}
