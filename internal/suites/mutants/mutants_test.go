package mutants

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	chosen = flag.String("mutants", "", "make the mistakes whose description matches this regexp, and see which tests notice")
	tree   = flag.String("tree", Root, "the checkout in which they are made")
)

// The list stays true: what a mutant replaces is there, once.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	what := make(map[string]bool)
	for _, m := range All() {
		if n, err := m.Count(Root); err != nil || n != 1 {
			t.Errorf("%s: %d times in the file, and not once: %q (%s), %v", m.File, n, m.Old, m.What, err)
		}
		if m.Tests == "" || m.What == "" || what[m.What] {
			t.Errorf("%+v: no tests are named, or the description is that of another", m)
		}
		what[m.What] = true
	}
}

// generated are tests that compare a file with what it is made of. They notice every change of a piece, whatever
// it means, so they do not count.
const generated = "TestTheJoinedScriptIsCheckedIn"

// patience is how long tests may take with a mistake: one that never ends is noticed, too.
const patience = 5 * time.Minute

// Each mistake is noticed by the tests of `make test`.
func TestNoticed(t *testing.T) {
	if *chosen == "" {
		t.Skip("it takes an hour: make mutants")
	}
	wanted := regexp.MustCompile(*chosen)
	noticed, made := 0, 0
	for _, m := range All() {
		if !wanted.MatchString(m.What) {
			continue
		}
		made++
		if by := m.noticedBy(t); by != "" {
			noticed++
			t.Logf("| %s | `%s` | %s |", m.What, m.File, by)
		} else {
			t.Errorf("| %s | `%s` | nobody |", m.What, m.File)
		}
	}
	t.Logf("%d of %d noticed", noticed, made)
}

var failed = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// noticedBy returns the first test that fails with the mistake.
func (m *Mutant) noticedBy(t *testing.T) string {
	t.Helper()
	overlay, err := m.Overlay(*tree, t.TempDir())
	if err != nil {
		t.Error(err)
		return ""
	}
	for _, pkg := range strings.Fields(m.Tests) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-failfast", "-overlay", overlay, "-skip", generated, "-timeout", patience.String(), ".")
		cmd.Dir = filepath.Join(*tree, pkg)
		out, err := cmd.CombinedOutput()
		cancel()
		var exit *exec.ExitError
		switch {
		case err == nil:
		case !errors.As(err, &exit) || bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
			t.Errorf("%s: %v\n%s", m.What, err, out)
			return ""
		default:
			if found := failed.FindSubmatch(out); found != nil {
				return pkg + " " + string(found[1])
			}
			return pkg + ", which does not end"
		}
	}
	return ""
}
