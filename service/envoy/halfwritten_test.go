package envoy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"
)

// written writes a file as one of an hour ago, which nobody waits for.
func written(t *testing.T, name, text string) {
	t.Helper()
	write2(t, name, text)
	ago := time.Now().Add(-time.Hour)
	must.OK(t, os.Chtimes(name, ago, ago))
}

// A file that is written in place, line by line, is valid behind each rule, with fewer limits. None of these
// states may decide, whether the folder is watched or reloaded.
func TestAHalfWrittenFileDecidesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := func(n int) string {
		return fmt.Sprintf("domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: %d}}\n  - {key: login, rate_limit: {unit: year, requests_per_unit: 5}}\n", n)
	}
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(dir, "edge.yaml")
		written(t, name, text(1))
		written(t, filepath.Join(dir, "other.yaml"), "domain: other\n")
		s := newServer(t, envoy.Config{Source: envoy.Directory(dir)})
		defer s.Watch(t.Context())()
		attempts := 0
		login := func() {
			for range 20 {
				if ask(t, direct{s}, request("edge", "login=a")).GetOverallCode() == ok {
					attempts++
				}
			}
		}
		inPlace := func(text string, pause time.Duration) {
			lines := strings.SplitAfter(text, "\n")
			for i := range lines {
				write2(t, name, strings.Join(lines[:i+1], ""))
				time.Sleep(pause)
				login()
			}
		}
		inPlace(text(2), 400*time.Millisecond)
		check.Equal(t, "logins while the file is watched", attempts, 5)
		wait.Until(t, "the whole file decides", func() bool { return s.Status().Changes == 1 })
		go inPlace(text(3), 100*time.Millisecond)
		time.Sleep(350 * time.Millisecond) // the rule of logins is missing
		must.OK(t, s.Reload(t.Context()))
		login()
		check.Equal(t, "logins after a reload", attempts, 5)
		wantSaid(t, ask(t, direct{s}, request("edge", "user=a")), "OK, OK 2")
	})
}

// A file whose writer pauses for longer than it is waited for needs a mark at its end.
func TestAFileWithoutItsEndMark(t *testing.T) {
	t.Parallel()
	with := func(text string) error {
		_, err := envoy.New(envoy.Config{Source: envoy.Files(files(text)...), Store: still(), Logger: quiet, EndMark: true})
		return err
	}
	check.OK(t, with(perUser(1)+"...\n"))
	check.Fails(t, "a file that is cut off", with(perUser(1)), `does not end with the line "..."`)
	check.OK(t, with(`{"domain": "edge", "descriptors": [{"key": "user"}]}`))
}

// hanging is a source that can hang, and can be away.
type hanging struct {
	hangs, away atomic.Bool
	text        atomic.Pointer[string]
	changed     chan struct{}
}

func (h *hanging) Load(ctx context.Context) ([]policy.File, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if h.away.Load() {
		return nil, errors.New("away")
	}
	return files(*h.text.Load()), nil
}

func (h *hanging) Watch(ctx context.Context, changed func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.changed:
			changed()
		}
	}
}

func newHanging(text string) *hanging {
	h := &hanging{changed: make(chan struct{})}
	h.text.Store(&text)
	return h
}

// Whoever asks for a reload waits no longer than its context allows, also behind another that hangs.
func TestAReloadHonoursItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := newHanging(perUser(5))
		s := newServer(t, envoy.Config{Source: from})
		from.hangs.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error)
		go func() { first <- s.Reload(ctx) }()
		synctest.Wait()
		second, cancelSecond := context.WithTimeout(t.Context(), time.Second)
		defer cancelSecond()
		check.Is(t, "behind another", s.Reload(second), context.DeadlineExceeded)
		cancel()
		check.Is(t, "the first", <-first, context.Canceled)
	})
}

// A source tells of a change once. If it can't be read then, it is read again.
func TestAChangeThatCouldNotBeReadIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := newHanging(perUser(5))
		s := newServer(t, envoy.Config{Source: from})
		defer s.Watch(t.Context())()
		next := perUser(9)
		from.text.Store(&next)
		from.away.Store(true)
		from.changed <- struct{}{}
		time.Sleep(time.Minute)
		check.Equal(t, "what is refused while it is away", s.Status().Refused, 1) // logged once
		from.away.Store(false)
		time.Sleep(2 * time.Second)
		wantSaid(t, ask(t, direct{s}, request("edge", "user=a")), "OK, OK 8")
	})
}

// A file is judged before it is parsed: a reader of YAML takes up to a kilobyte per value, and a value two
// bytes of text.
//
// It is not parallel: what others use would count.
func TestAFileOfTooManyValues(t *testing.T) {
	for name, text := range map[string]string{
		"commas":   "domain: edge\ndescriptors: [" + strings.Repeat("a,", 4_000_000) + "]\n",
		"dashes":   "domain: edge\ndescriptors:\n" + strings.Repeat("- \n", 2_500_000),
		"comments": "domain: edge\n" + strings.Repeat("#\n", 4_000_000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := envoy.New(envoy.Config{Source: envoy.Files(files(text)...), Store: still(), Logger: quiet})
		runtime.ReadMemStats(&after)
		check.Fails(t, name, err, "more than 700000 commas")
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 12<<20 && !race.Enabled { // of which the text is the most
			t.Errorf("%s: a file of 8 MB takes %d MB", name, taken>>20)
		}
	}
}

// The time that a file takes grows with its size, and not with the square of it: one of the greatest size is checked in
// seconds, and does not keep weblimitd busy for hours.
func TestTimeGrowsWithTheFile(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	var values, wildcards strings.Builder
	for text, value := range map[*strings.Builder]string{&values: "%d", &wildcards: "%d*"} {
		text.WriteString("domain: a\ndescriptors:\n")
		for i := range 80_000 {
			fmt.Fprintf(text, "- {key: k, value: "+value+"}\n", i)
		}
	}
	for name, c := range map[string]struct{ text, want string }{
		"values":    {values.String() + "- {key: k, value: 79999}\n", "the same key and value are in"},
		"wildcards": {wildcards.String() + "- {key: k, value: 79999*}\n", "the same key and value are in"},
		"comments":  {"domain: a\n" + strings.Repeat("# weblimit: leaky\n", 80_000), "a.yaml:2:1: the comment"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			go func() {
				ended <- check.ErrorOf(envoy.New(envoy.Config{Source: envoy.Files(files(c.text)...), Store: still(), Logger: quiet}))
			}()
			select {
			case err := <-ended:
				check.Fails(t, "the file", err, c.want)
			case <-time.After(2 * time.Minute): // which takes a second
				t.Error("it takes more than two minutes")
			}
		})
	}
}
