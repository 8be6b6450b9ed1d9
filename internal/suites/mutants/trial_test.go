package mutants

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

// generated are tests that compare a file with what it is made of. They notice every change of a piece, whatever
// it means, so they do not count.
const generated = "TestTheJoinedScriptIsCheckedIn"

// bench is a checkout in which mistakes are made.
type bench struct {
	overlay string       // that of the mistakes that are woven in
	woven   map[int]bool // them

	mu    sync.Mutex
	built map[string]func() (*tests, error) // by package, with what is woven in. Guarded by mu.
	dir   string                            // of the programs
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{built: make(map[string]func() (*tests, error)), dir: t.TempDir()}
	var err error
	b.overlay, b.woven, err = weave(*tree, t.TempDir(), All())
	must.OK(t, err)
	return b
}

// tests are those of a package, built.
type tests struct {
	pkg, binary string
	env         []string
}

// build builds the tests of a package. They are nil if there are none.
func build(ctx context.Context, pkg, overlay, binary string) (*tests, error) {
	folder := filepath.Join(*tree, pkg)
	if _, err := os.Stat(folder); err != nil {
		return nil, nil //nolint:nilnil,nilerr // another checkout
	}
	// The variable is also for programs that tests build.
	built := &tests{pkg, binary, append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-o", binary, ".")
	cmd.Dir, cmd.Env = folder, built.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", pkg, err, out)
	}
	return built, nil
}

// shared returns the tests of a package with all mistakes that are woven in, which are built once.
func (b *bench) shared(t *testing.T, pkg string) *tests {
	t.Helper()
	b.mu.Lock()
	once := b.built[pkg]
	if once == nil {
		binary := filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "_"))
		once = sync.OnceValues(func() (*tests, error) { return build(context.WithoutCancel(t.Context()), pkg, b.overlay, binary) })
		b.built[pkg] = once
	}
	b.mu.Unlock()
	return must.Get(once())(t)
}

// noticedBy returns the first test that fails with mistake number n: the known one, if that still fails.
func (b *bench) noticedBy(t *testing.T, n int, m *Mutant, known row) row {
	t.Helper()
	packages := strings.Fields(m.Tests)
	if i := slices.Index(packages, known.pkg); i > 0 {
		packages[0], packages[i] = packages[i], packages[0]
	}
	for _, pkg := range packages {
		right := b.shared(t, pkg)
		if right == nil {
			continue
		}
		wrong := right.with(n)
		if !b.woven[n] {
			dir := t.TempDir()
			wrong = must.Get(build(t.Context(), pkg, must.Get(m.Overlay(*tree, dir))(t), filepath.Join(dir, "tests")))(t)
		}
		if pkg == known.pkg && known.test != "" {
			if by, failed := wrong.run(t, "-test.run", exactly(known.test)); failed {
				return by
			}
		}
		by, failed := wrong.run(t)
		if !failed {
			continue
		}
		if by.test != "" {
			if _, failed := right.run(t, "-test.run", exactly(by.test)); failed {
				t.Errorf("%s fails without the mistake, too", by)
			}
		}
		return by
	}
	return row{}
}

// with returns tests with a mistake that is woven in.
func (b *tests) with(n int) *tests {
	return &tests{b.pkg, b.binary, append(slices.Clone(b.env), fmt.Sprintf("%s=%d", Variable, n))}
}

var (
	failures = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	hanging  = regexp.MustCompile(`(?m)^\s*running tests:\n\s+(\S+)`)
)

// run runs tests, and returns the first that fails.
func (b *tests) run(t *testing.T, args ...string) (by row, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *patience+time.Minute)
	defer cancel()
	args = append(args, "-test.failfast", "-test.paniconexit0", "-test.skip", generated, "-test.timeout", patience.String())
	cmd := exec.CommandContext(ctx, b.binary, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = filepath.Join(*tree, b.pkg), b.env, time.Second
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		t.Errorf("%s: %v\n%s", b.pkg, err, out)
	}
	if err == nil {
		return row{}, false
	}
	by.pkg = b.pkg
	for _, found := range append(failures.FindAllSubmatch(out, -1), hanging.FindAllSubmatch(out, 1)...) {
		if name := string(found[1]); by.test == "" || strings.HasPrefix(name, by.test+"/") { // the innermost
			by.test = name
		}
	}
	if by.test == "" {
		t.Logf("%s breaks off:\n%s", b.pkg, out)
	}
	return by, true
}

// exactly returns what -test.run takes for one test.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}
