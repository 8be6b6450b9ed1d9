package policy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/internal/archivetest"
)

// simple is a file with one policy of one limit.
func simple(n int) string {
	return fmt.Sprintf("version: v%d\npolicies:\n  api:\n    limits:\n      client: {limit: %d/hour, by: ip}\n", n, n)
}

func limiterOf(t *testing.T, set *policy.Set, store core.Store, name string) *core.Limiter {
	t.Helper()
	l, err := set.Limiter(core.Config{Store: store}, name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// quiet is for tests whose log does not matter.
func quiet() policy.Options { return policy.Options{Logger: slog.New(slog.DiscardHandler)} }

func TestReload(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, name, simple(5))
	var log bytes.Buffer
	set, err := policy.Load(name, policy.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	store := core.NewMemory()
	l := limiterOf(t, set, store, "api")
	client := keyfuncs.Values{"ip": "192.0.2.1"}
	take := func(n int, allowed bool, version string) {
		t.Helper()
		for range n {
			if d := l.Allow(client); d.Allowed != allowed || !strings.HasPrefix(d.Version(), version+"#") {
				t.Fatalf("%v by version %q, want allowed=%v by %s", d, d.Version(), allowed, version)
			}
		}
	}
	ctx := context.Background()
	take(3, true, "v5")

	// Bad files change nothing, and are logged once.
	write(t, name, strings.Replace(simple(9), "hour", "huor", 1))
	for range 3 {
		var wrong *policy.Error
		if err := set.Reload(ctx); !errors.As(err, &wrong) {
			t.Fatalf("a bad file: %v", err)
		}
	}
	if got := set.Status(); got.Refused != 1 || got.Err == nil || got.Version.Name != "v5" {
		t.Errorf("status after a bad file: %+v", got)
	}
	if n := strings.Count(log.String(), "policy refused"); n != 1 {
		t.Errorf("the bad file was logged %d times, want once:\n%s", n, &log)
	}
	write(t, name, strings.Replace(simple(9), "api", "other", 1))
	if err := set.Reload(ctx); err == nil || !strings.Contains(err.Error(), `"api" is in use`) {
		t.Errorf("a file without the policy in use: %v", err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := set.Reload(ctx); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	take(1, true, "v5")

	// What was used stays used.
	write(t, name, simple(6))
	if err := set.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	if got := set.Status(); got.Err != nil || got.Version.Name != "v6" || got.Changes != 1 {
		t.Errorf("status: %+v", got)
	}
	take(2, true, "v6")
	take(1, false, "v6")
	if !strings.Contains(log.String(), "api, client: 5 → 6 per hour; keys keep what they used") {
		t.Errorf("the log does not say what has changed:\n%s", &log)
	}

	// Names that are gone are free again, and new limits are declared.
	write(t, name, "policies:\n  api:\n    limits:\n      other: {limit: 1/hour, by: ip}\n")
	if err := set.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	if all := store.Registry().Declarations(); len(all) != 1 || all[0].Rule.Name != "other" {
		t.Errorf("declared: %v", all)
	}
	for _, want := range []string{"v6", "v5"} {
		version, err := set.Rollback()
		if err != nil || version.Name != want {
			t.Fatalf("rolled back to %v: %v, want %s", version, err, want)
		}
		if d := l.Allow(client); !strings.HasPrefix(d.Version(), want) {
			t.Errorf("%q decides after going back to %s", d.Version(), want)
		}
	}
	if _, err := set.Rollback(); err == nil {
		t.Error("rolled back behind the first version")
	}
}

func TestLimiterRefuses(t *testing.T) {
	t.Parallel()
	set, err := policy.Parse("x.yaml", []byte(simple(5)))
	if err != nil {
		t.Fatal(err)
	}
	store := core.NewMemory()
	core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{core.PerDay(1).By(keyfuncs.ClientIP()).Named("client")}}))
	for want, config := range map[string]core.Config{
		"the store has a different limit": {Store: store},
		"Store is missing":                {},
		"Limits must be empty":            {Store: core.NewMemory(), Limits: []core.Limit{core.PerDay(1)}},
	} {
		if _, err := set.Limiter(config, "api"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := set.Limiter(core.Config{Store: core.NewMemory()}, "app"); err == nil || !strings.Contains(err.Error(), `did you mean "api"`) {
		t.Errorf("another name: %v", err)
	}
	secret := []byte("policies: {a: {limits: {b: {limit: 1/s, by: ip}}, bypass: [{tokens: {header: X-T, values: ['${env:NO_SUCH}']}}]}}")
	set, err = policy.Parse("x.yaml", secret, policy.Options{WithoutSecrets: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Limiter(core.Config{Store: core.NewMemory()}, "a"); err == nil {
		t.Error("a policy without its secrets can be used")
	}
}

func TestWatchAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// As Kubernetes mounts a ConfigMap: the file is a link through a link that is swapped.
	mount := func(n int) {
		version := filepath.Join(dir, fmt.Sprintf("..%d", n))
		if err := os.Mkdir(version, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(version, "limits.yaml"), simple(n))
		next := filepath.Join(dir, "..next")
		if err := os.Symlink(version, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	mount(1)
	name := filepath.Join(dir, "limits.yaml")
	if err := os.Symlink(filepath.Join("..data", "limits.yaml"), name); err != nil {
		t.Fatal(err)
	}
	set, err := policy.Load(name, quiet())
	if err != nil {
		t.Fatal(err)
	}
	stop := set.Watch(t.Context())
	is := func(version string) func() bool {
		return func() bool { return set.Status().Version.Name == version }
	}
	mount(2)
	archivetest.Until(t, "a link is swapped", is("v2"))
	write(t, filepath.Join(dir, "..2", "limits.yaml"), simple(3)) // of the same size
	archivetest.Until(t, "the file is written", is("v3"))
	write(t, filepath.Join(dir, "new"), simple(4))
	if err := os.Rename(filepath.Join(dir, "new"), name); err != nil {
		t.Fatal(err)
	}
	archivetest.Until(t, "the file is replaced", is("v4"))
	write(t, name, "policies: 1")
	archivetest.Until(t, "a bad file is refused", func() bool { return set.Status().Err != nil })
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	archivetest.Until(t, "no file is refused", func() bool { return errors.Is(set.Status().Err, os.ErrNotExist) })
	write(t, name, simple(5))
	archivetest.Until(t, "the file is back", is("v5"))
	if _, err := set.Rollback(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * policy.FilePoll)
	if !is("v4")() {
		t.Error("the version that was rolled back has come back")
	}
	stop()
	write(t, name, simple(6))
	time.Sleep(2 * policy.FilePoll)
	if !is("v4")() {
		t.Error("the file is watched after stop")
	}
}

// source is a Source that a test changes.
type source struct {
	text    atomic.Pointer[string]
	changed chan struct{}
}

func (s *source) Load(context.Context) (policy.File, error) {
	return policy.File{Name: "test", Text: []byte(*s.text.Load())}, nil
}

func (s *source) Watch(ctx context.Context, changed func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			changed()
		}
	}
}

func TestSources(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"a/limits.yaml": {Data: []byte(simple(7))}}
	set, err := policy.LoadFS(files, "a/limits.yaml")
	if err != nil || set.Status().Version.Name != "v7" {
		t.Errorf("from an fs.FS: %v", err)
	}
	if _, err := policy.LoadFS(files, "limits.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
	set, err = policy.Parse("x.json", []byte(`{
	"policies": {
		"api": {"limits": {"client": {"limit": "5/hour", "by": "ip"}}}
	}
}`))
	if err != nil || len(set.Names()) != 1 {
		t.Errorf("JSON with tabs: %v", err)
	}
	if got := set.Status().Version.String(); len(got) != 12 {
		t.Errorf("a version without a name is %q", got)
	}
}

func TestReloadFromManySides(t *testing.T) {
	t.Parallel()
	from := &source{changed: make(chan struct{}, 1)}
	text := simple(1)
	from.text.Store(&text)
	set, err := policy.From(from, quiet())
	if err != nil {
		t.Fatal(err)
	}
	l := limiterOf(t, set, core.NewMemory(), "api")
	defer set.Watch(t.Context())()
	var all sync.WaitGroup
	for side := range 4 {
		all.Go(func() {
			for i := range 50 {
				text := simple(1000 + side*100 + i)
				from.text.Store(&text)
				switch side {
				case 0:
					_, _ = set.Rollback()
				case 1:
					from.changed <- struct{}{}
				default:
					if err := set.Reload(context.Background()); err != nil {
						t.Error(err)
					}
				}
				l.Allow(keyfuncs.Values{"ip": "192.0.2.1"})
			}
		})
	}
	all.Wait()
	if err := set.Reload(context.Background()); err != nil {
		t.Error(err)
	}
	if got, want := set.Status().Version.Name, strings.Fields(*from.text.Load())[1]; got != want {
		t.Errorf("%s decides, want %s, the last one", got, want)
	}
}
