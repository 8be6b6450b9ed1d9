package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// written is what a test binary writes: ^ stands for the byte that marks its lines.
const written = `-test.shuffle 42
^=== RUN   TestGood
    of a test that passes
^--- PASS: TestGood (0.01s)
^=== RUN   TestBad
^=== PAUSE TestBad
^=== RUN   TestSkipped
    needs a server
^--- SKIP: TestSkipped (0.00s)
^=== CONT  TestBad
^=== RUN   TestBad/one (two)
    bad_test.go:7: got 1, want 2
printed without an end^=== NAME  TestBad
^--- FAIL: TestBad (0.20s)
    ^--- FAIL: TestBad/one (two) (0.10s)
FAIL
coverage: none
`

func read(t *testing.T, text string, err error) outcome {
	t.Helper()
	p := program{unit: unit{dir: "quota", race: true}, pkg: listed{ImportPath: module + "/quota/notify"}}
	transcript := newTranscript(p)
	for _, c := range []byte(strings.ReplaceAll(text, "^", "\x16")) { // in pieces, as pipes do
		must.Do(transcript.Write([]byte{c}))(t)
	}
	return transcript.end(err)
}

func TestATranscriptIsRead(t *testing.T) {
	t.Parallel()
	o := read(t, written, errors.New("exit status 1"))
	check.Equal(t, "result", o.result, "fail")
	check.Equal(t, "passed", o.passed, 1)
	check.Equal(t, "skipped", strings.Join(o.skipped, " "), "TestSkipped")
	check.Equal(t, "seed", o.seed, "42")
	if len(o.failed) != 1 {
		t.Fatalf("failures: %+v, want only the innermost", o.failed)
	}
	check.Equal(t, "failed", o.failed[0].test, "TestBad/one (two)")
	check.Equal(t, "took", o.failed[0].took, "0.10s")
	check.Equal(t, "its output", strings.Join(o.failed[0].output, ""), "    bad_test.go:7: got 1, want 2\nprinted without an end")
}

// The story of a failure has what it said, and a command that repeats it.
func TestAStoryHasTheCommandThatRepeatsIt(t *testing.T) {
	t.Parallel()
	check.Equal(t, "story", read(t, written, errors.New("exit status 1")).story(), `
FAIL quota/notify
  TestBad/one (two) (0.10s)
        bad_test.go:7: got 1, want 2
    printed without an end
  again: cd quota && CI=true go test -race -shuffle=42 -run '^TestBad$/^one \(two\)$' ./notify
`)
}

// Tests that had not ended when their process did have failed, and the first lines of the crash are shown.
func TestAProcessThatEndsEarly(t *testing.T) {
	t.Parallel()
	stack := strings.Repeat("\tframe\n", 100)
	for name, tt := range map[string]struct{ text, failed, shown string }{
		"a panic in a test": {"^=== RUN   TestWaits\n^=== PAUSE TestWaits\n^=== RUN   TestBad\npanic: at once\n" + stack, "TestBad", "panic: at once"},
		"a panic behind a test that has ended": {
			"^=== RUN   TestBad\n^=== PAUSE TestBad\n^=== CONT  TestBad\n^=== CONT  TestGood\n^--- PASS: TestGood (0.00s)\npanic: closed\n" + stack, "TestBad", "panic: closed",
		},
		"a signal while a test runs": {"^=== RUN   TestBad\n    bad_test.go:7: so far\n", "TestBad", "signal: killed"},
		"before the first test":      {"panic: in init\n" + stack, "", "panic: in init"},
		"without a word":             {"", "", "signal: killed"},
		"outside of tests":           {"^=== RUN   TestGood\n^--- PASS: TestGood (0.00s)\n^=== NAME  \nWARNING: DATA RACE\n" + stack, "", "WARNING: DATA RACE"},
	} {
		o := read(t, tt.text, errors.New("signal: killed"))
		check.Equal(t, name+": result", o.result, "fail")
		var failed []string
		for _, f := range o.failed {
			failed = append(failed, f.test)
		}
		check.Equal(t, name+": failed", strings.Join(failed, " "), tt.failed)
		story := o.story()
		if !strings.Contains(story, tt.shown) || strings.Count(story, "\n") > linesPerFailure+10 {
			t.Errorf("%s: the story is\n%s", name, story)
		}
	}
}

func TestAPackageWithoutTestsIsNeitherGreenNorRed(t *testing.T) {
	t.Parallel()
	check.Equal(t, "result", read(t, "testing: warning: no tests to run\nPASS\n", nil).result, "")
}
