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
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/policy"
)

// simple is a file with one policy of one limit.
func simple(n int) string {
	return fmt.Sprintf("version: v%d\npolicies:\n  api:\n    limits:\n      client: {limit: %d/hour, by: ip}\n", n, n)
}

func limiterOf(t *testing.T, set *policy.Set, store core.Store, name string) *core.Limiter {
	t.Helper()
	return must.Get(set.Limiter(core.Config{Store: store}, name))(t)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(name, []byte(text), 0o600))
}

// quiet is for tests whose log does not matter.
func quiet() policy.Options { return policy.Options{Logger: slog.New(slog.DiscardHandler)} }

func TestReload(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, name, simple(5))
	var log bytes.Buffer
	set := must.Get(policy.Load(name, policy.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
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
	check.Equal(t, "times that the bad file was logged", strings.Count(log.String(), "policy refused"), 1)
	write(t, name, strings.Replace(simple(9), "api", "other", 1))
	check.Fails(t, "a file without the policy in use", set.Reload(ctx), `"api" is in use`)
	must.OK(t, os.Remove(name))
	check.Is(t, "no file", set.Reload(ctx), os.ErrNotExist)
	take(1, true, "v5")

	// What was used stays used.
	write(t, name, simple(6))
	must.OK(t, set.Reload(ctx))
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
	must.OK(t, set.Reload(ctx))
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
	check.Fails(t, "rolled back behind the first version", check.ErrorOf(set.Rollback()), "")
}

func TestLimiterRefuses(t *testing.T) {
	t.Parallel()
	set := must.Get(policy.Parse("x.yaml", []byte(simple(5))))(t)
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
	check.Fails(t, "another name", check.ErrorOf(set.Limiter(core.Config{Store: core.NewMemory()}, "app")), `did you mean "api"`)
	secret := []byte("policies: {a: {limits: {b: {limit: 1/s, by: ip}}, bypass: [{tokens: {header: X-T, values: ['${env:NO_SUCH}']}}]}}")
	set = must.Get(policy.Parse("x.yaml", secret, policy.Options{WithoutSecrets: true}))(t)
	check.Fails(t, "a policy without its secrets can be used", check.ErrorOf(set.Limiter(core.Config{Store: core.NewMemory()}, "a")), "")
}

func TestWatchAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		// As Kubernetes mounts a ConfigMap: the file is a link through a link that is swapped.
		mount := func(n int) {
			version, next := filepath.Join(dir, fmt.Sprintf("..%d", n)), filepath.Join(dir, "..next")
			must.OK(t, os.Mkdir(version, 0o700))
			written(t, filepath.Join(version, "limits.yaml"), simple(n))
			must.OK(t, os.Symlink(version, next))
			must.OK(t, os.Rename(next, filepath.Join(dir, "..data")))
		}
		mount(1)
		name := filepath.Join(dir, "limits.yaml")
		must.OK(t, os.Symlink(filepath.Join("..data", "limits.yaml"), name))
		set := must.Get(policy.Load(name, quiet()))(t)
		stop := set.Watch(t.Context())
		synctest.Wait() // it has looked at the file
		follows := func(what, version string) {
			t.Helper()
			wait.Until(t, what, func() bool { return set.Status().Version.Name == version })
		}
		mount(2)
		follows("a link is swapped", "v2")
		written(t, filepath.Join(dir, "..2", "limits.yaml"), simple(3)) // of the same size
		follows("the file is written", "v3")
		written(t, filepath.Join(dir, "new"), simple(4))
		must.OK(t, os.Rename(filepath.Join(dir, "new"), name))
		follows("the file is replaced", "v4")
		written(t, name, "policies: 1")
		wait.Until(t, "a bad file is refused", func() bool { return set.Status().Err != nil })
		must.OK(t, os.Remove(name))
		wait.Until(t, "no file is refused", func() bool { return errors.Is(set.Status().Err, os.ErrNotExist) })
		written(t, name, simple(5))
		follows("the file is back", "v5")
		// Two changes within one tick of the file system's clock look like one, so a young file is read again.
		write(t, name, simple(6))
		must.OK(t, os.Chtimes(name, time.Now(), time.Now()))
		follows("the file is changed", "v6")
		write(t, name, simple(7))
		must.OK(t, os.Chtimes(name, time.Now().Add(-2*time.Second), time.Now().Add(-2*time.Second)))
		follows("the file is young", "v7")
		must.Get(set.Rollback())(t)
		time.Sleep(3 * policy.FilePoll)
		check.Equal(t, "what decides after a roll-back", set.Status().Version.Name, "v6")
		stop()
		written(t, name, simple(8))
		time.Sleep(2 * policy.FilePoll)
		check.Equal(t, "what decides after stop", set.Status().Version.Name, "v6")
	})
}

// written writes a file that is an hour old by the time of a bubble, and so is not read without a change.
func written(t *testing.T, name, text string) {
	t.Helper()
	write(t, name, text)
	ago := time.Now().Add(-time.Hour)
	must.OK(t, os.Chtimes(name, ago, ago))
}

// source is a Source that a test changes, and that can be away. It tells of a change when the test does.
type source struct {
	text    atomic.Pointer[string]
	away    atomic.Bool
	loads   atomic.Int64
	changed chan struct{}
}

var errAway = errors.New("the source is away")

// sourceOf returns a source of a text, and a set of it.
func sourceOf(t *testing.T, text string, options policy.Options) (*source, *policy.Set) {
	t.Helper()
	from := &source{changed: make(chan struct{})}
	from.put(text)
	return from, must.Get(policy.From(from, options))(t)
}

func (s *source) put(text string) { s.text.Store(&text) }

func (s *source) Load(context.Context) (policy.File, error) {
	s.loads.Add(1)
	if s.away.Load() {
		return policy.File{}, errAway
	}
	return policy.File{Name: "limits.yaml", Text: []byte(*s.text.Load())}, nil
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
	check.Is(t, "no such file", check.ErrorOf(policy.LoadFS(files, "limits.yaml")), os.ErrNotExist)
	set, err = policy.Parse("x.json", []byte(`{
	"policies": {
		"api": {"limits": {"client": {"limit": "5/hour", "by": "ip"}}}
	}
}`))
	if err != nil || len(set.Names()) != 1 {
		t.Errorf("JSON with tabs: %v", err)
	}
	check.Equal(t, "digits of a version without a name", len(set.Status().Version.String()), 12)
}

func TestReloadFromManySides(t *testing.T) {
	t.Parallel()
	from, set := sourceOf(t, simple(1), quiet())
	l := limiterOf(t, set, core.NewMemory(), "api")
	defer set.Watch(t.Context())()
	var all sync.WaitGroup
	for side := range 4 {
		all.Go(func() {
			for i := range 50 {
				from.put(simple(1000 + side*100 + i))
				switch side {
				case 0:
					_, _ = set.Rollback()
				case 1:
					from.changed <- struct{}{}
				default:
					check.OK(t, set.Reload(context.Background()))
				}
				l.Allow(keyfuncs.Values{"ip": "192.0.2.1"})
			}
		})
	}
	all.Wait()
	check.OK(t, set.Reload(context.Background()))
	check.Equal(t, "what decides, the last one", set.Status().Version.Name, strings.Fields(*from.text.Load())[1])
}

// Each reload reads the options again, so what the application does with its own maps must not reach them.
func TestOptionsStayAsTheyWereGiven(t *testing.T) {
	t.Parallel()
	text := func(limit string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("policies: {p: {limits: {a: {limit: " + limit + ", by: account}}}}")}
	}
	keys, files := map[string]keyfuncs.Func{"account": keyfuncs.Header("X-Account")}, fstest.MapFS{"limits.yaml": text("1/hour")}
	set := must.Get(policy.LoadFS(files, "limits.yaml", policy.Options{Keys: keys}))(t)
	delete(keys, "account")
	files["limits.yaml"] = text("2/hour")
	must.OK(t, set.Reload(t.Context()))
}
