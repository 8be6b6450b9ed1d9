package policy_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
)

// has changes the text, and tells of it, in a bubble.
func (s *source) has(text string) {
	s.put(text)
	s.changed <- struct{}{}
	synctest.Wait()
}

func decides(t *testing.T, set *policy.Set, version string) {
	t.Helper()
	must.Equal(t, "what decides", set.Status().Version.Name, version)
}

// A source tells of a change once. If it is away by the time that the change is loaded, the change is
// still found, as soon as the source is back.
func TestAChangeIsNotMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, set := sourceOf(t, simple(1), quiet())
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
		check.OK(t, set.Status().Err)
	})
}

// What was rolled back does not come back by itself, also where the source flaps or has a wrong file
// meanwhile. What comes next decides, and so does what somebody asks for.
func TestARollBackLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, set := sourceOf(t, simple(1), quiet())
		defer set.Watch(t.Context())()
		from.has(simple(2))
		must.Get(set.Rollback())(t)
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
		must.OK(t, set.Reload(t.Context()))
		decides(t, set, "v2")
		must.Get(set.Rollback())(t)
		from.has(simple(3))
		decides(t, set, "v3")
		check.Equal(t, "rolled back after another version", set.Status().RolledBack.Hash, "")
		from.has(simple(2)) // somebody has published it again
		decides(t, set, "v2")
	})
}

// Metrics see that a file is refused, also those of limiters that are made meanwhile.
func TestRefusalsReachMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from, set := sourceOf(t, simple(1), quiet())
		defer set.Watch(t.Context())()
		store := core.NewMemory()
		refused := func(want bool) {
			t.Helper()
			check.Equal(t, "refused", limiterOf(t, set, store, "api").Stats().Refused, want)
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
	from, set := sourceOf(t, simple(1), policy.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
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
