package policy_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/policy"
)

// flapping is a source that can be away, and tells of each change once.
type flapping struct {
	text    atomic.Pointer[string]
	away    atomic.Bool
	loads   atomic.Int64
	changed chan struct{}
}

var errAway = errors.New("the source is away")

func (f *flapping) Load(context.Context) (policy.File, error) {
	f.loads.Add(1)
	if f.away.Load() {
		return policy.File{}, errAway
	}
	return policy.File{Name: "test", Text: []byte(*f.text.Load())}, nil
}

func (f *flapping) Watch(ctx context.Context, changed func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
			changed()
		}
	}
}

// has changes the text, and tells of it.
func (f *flapping) has(text string) {
	f.text.Store(&text)
	f.changed <- struct{}{}
	synctest.Wait()
}

func watched(t *testing.T, options policy.Options) (*flapping, *policy.Set) {
	t.Helper()
	from := &flapping{changed: make(chan struct{})}
	text := simple(1)
	from.text.Store(&text)
	set, err := policy.From(from, options)
	if err != nil {
		t.Fatal(err)
	}
	return from, set
}

func decides(t *testing.T, set *policy.Set, version string) {
	t.Helper()
	if got := set.Status().Version.Name; got != version {
		t.Fatalf("%s decides, want %s", got, version)
	}
}

// A source tells of a change once. If it is away by the time that the change is loaded, the change is
// still found, as soon as the source is back.
func TestAChangeIsNotMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, set := watched(t, quiet())
		defer set.Watch(t.Context())()
		from.away.Store(true)
		from.has(simple(2))
		time.Sleep(time.Minute)
		decides(t, set, "v1")
		if loads := from.loads.Load(); loads > 70 {
			t.Errorf("it was loaded %d times in a minute", loads)
		}
		if got := set.Status(); !errors.Is(got.Err, errAway) || got.Refused != 1 {
			t.Errorf("while the source is away: %+v", got)
		}
		from.away.Store(false)
		time.Sleep(2 * time.Second)
		decides(t, set, "v2")
		if got := set.Status(); got.Err != nil {
			t.Errorf("when it is back: %v", got.Err)
		}
	})
}

// What was rolled back does not come back by itself, also where the source flaps or has a wrong file
// meanwhile. What comes next decides, and so does what somebody asks for.
func TestARollBackLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, set := watched(t, quiet())
		defer set.Watch(t.Context())()
		from.has(simple(2))
		if _, err := set.Rollback(); err != nil {
			t.Fatal(err)
		}
		rolledBack := func() {
			t.Helper()
			decides(t, set, "v1")
			if got := set.Status(); got.Err != nil || got.RolledBack.Name != "v2" {
				t.Errorf("after a roll-back: %+v", got)
			}
		}
		from.has(simple(2))
		rolledBack()
		from.away.Store(true)
		from.has(simple(2))
		if got := set.Status(); !errors.Is(got.Err, errAway) || got.RolledBack.Name != "v2" {
			t.Errorf("while the source is away: %+v", got)
		}
		from.away.Store(false)
		time.Sleep(2 * time.Second)
		rolledBack()
		from.has("policies: 1")
		if set.Status().Err == nil {
			t.Error("a wrong file is not refused")
		}
		from.has(simple(2))
		rolledBack()
		if err := set.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		decides(t, set, "v2")
		if _, err := set.Rollback(); err != nil {
			t.Fatal(err)
		}
		from.has(simple(3))
		decides(t, set, "v3")
		if got := set.Status(); got.RolledBack.Hash != "" {
			t.Errorf("after another version: %+v", got)
		}
		from.has(simple(2)) // somebody has published it again
		decides(t, set, "v2")
	})
}

// Metrics see that a file is refused, also those of limiters that are made meanwhile.
func TestRefusalsReachMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, set := watched(t, quiet())
		defer set.Watch(t.Context())()
		store := core.NewMemory()
		refused := func(want bool) {
			t.Helper()
			if got := limiterOf(t, set, store, "api").Stats(); got.Refused != want {
				t.Errorf("refused: %v, want %v", got.Refused, want)
			}
		}
		before := limiterOf(t, set, store, "api")
		refused(false)
		from.has("policies: 1")
		refused(true)
		if got := before.Stats(); !got.Refused || !strings.HasPrefix(got.Version, "v1#") {
			t.Errorf("a limiter of before: %+v", got)
		}
		from.has(simple(2))
		refused(false)
		if before.Stats().Refused {
			t.Error("a limiter of before is still refused")
		}
	})
}

// Who asks for a reload and goes away says nothing about the file.
func TestAReloadThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	from, set := watched(t, policy.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	from.away.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := set.Reload(ctx); err == nil {
		t.Error("no error")
	}
	if got := set.Status(); got.Err != nil || got.Refused != 0 || log.Len() > 0 {
		t.Errorf("status %+v, log %s", got, &log)
	}
}
