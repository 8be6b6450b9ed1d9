// Package archivetest is the suite for every policy.Archive: what was published, by whom, and how to go
// back, also where several publish at once.
package archivetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/policy"
)

// File returns a good file whose version is "vN", with a limit of N per second.
func File(n int) policy.File {
	return policy.File{Name: "limits.yaml", Text: fmt.Appendf(nil, "version: v%d\npolicies: {api: {limits: {a: {limit: %d/s, by: account}}}}\n", n, n)}
}

// Run runs the suite. Each call of open returns an archive with nothing in it.
func Run(t *testing.T, open func(t *testing.T) policy.Archive) {
	t.Run("Releases", func(t *testing.T) { t.Parallel(); releases(t, open(t)) })
	t.Run("WrongFile", func(t *testing.T) { t.Parallel(); wrongFile(t, open(t)) })
	t.Run("Overtaken", func(t *testing.T) { t.Parallel(); overtaken(t, open(t)) })
	t.Run("Bounded", func(t *testing.T) { t.Parallel(); bounded(t, open(t)) })
	t.Run("Large", func(t *testing.T) { t.Parallel(); large(t, open(t)) })
	t.Run("Follows", func(t *testing.T) { t.Parallel(); follows(t, open(t)) })
}

func publish(t *testing.T, in policy.Archive, n int) policy.Release {
	t.Helper()
	return must.Get(policy.Publish(t.Context(), in, File(n), policy.Publication{By: "ann", Note: "why"}))(t)
}

func all(t *testing.T, in policy.Archive) []policy.Release {
	t.Helper()
	return must.Get(in.Releases(t.Context()))(t)
}

// is fails the test unless the archive serves the file vN as the release of that number.
func is(t *testing.T, in policy.Archive, n int, number int64) {
	t.Helper()
	file, err := in.Load(t.Context())
	if err != nil || !bytes.Equal(file.Text, File(n).Text) || file.Name != "limits.yaml" {
		t.Fatalf("it serves %q, %q: %v; want v%d", file.Name, file.Text, err, n)
	}
	if now := all(t, in)[0]; now.Number != number || now.Version.Name != fmt.Sprintf("v%d", n) {
		t.Errorf("the last release is %v, want release %d, v%d", now, number, n)
	}
}

func releases(t *testing.T, in policy.Archive) {
	ctx := t.Context()
	noRollback := func(what string, number int64) {
		t.Helper()
		if _, err := policy.Rollback(ctx, in, number, policy.Publication{}); !errors.Is(err, policy.ErrNoRelease) {
			t.Errorf("rolled back %s: %v", what, err)
		}
	}
	check.Equal(t, "releases of an empty archive", len(all(t, in)), 0)
	if _, err := in.Load(ctx); err == nil {
		t.Error("an empty archive has a file")
	}
	if _, err := in.Read(ctx, 1); !errors.Is(err, policy.ErrNoRelease) {
		t.Errorf("a release of an empty archive: %v", err)
	}
	noRollback("an empty archive", 0)
	began := time.Now()
	for n := 1; n <= 3; n++ {
		if got := publish(t, in, n); got.Number != int64(n) || got.By != "ann" || got.Note != "why" || got.At.Sub(began).Abs() > 10*time.Minute {
			t.Errorf("published: %+v", got)
		}
	}
	if again := publish(t, in, 3); again.Number != 3 || len(all(t, in)) != 3 {
		t.Errorf("the same file was published twice, as %v", again)
	}
	for i, r := range all(t, in) {
		n := 3 - i
		if r.Number != int64(n) || r.By != "ann" || r.Note != "why" || r.File != "limits.yaml" || r.Version.Name != fmt.Sprintf("v%d", n) || len(r.Version.Hash) != 64 || r.At.Sub(began).Abs() > 10*time.Minute || r.Of != 0 {
			t.Errorf("in the log: %+v", r)
		}
		if file, err := in.Read(ctx, r.Number); err != nil || file.Name != "limits.yaml" || !bytes.Equal(file.Text, File(n).Text) {
			t.Errorf("release %d is %q: %v", n, file.Text, err)
		}
	}
	back := func(number int64, to int, as, of int64) {
		t.Helper()
		got, err := policy.Rollback(ctx, in, number, policy.Publication{By: "ben"})
		if err != nil || got.Number != as || got.Of != of || got.By != "ben" {
			t.Fatalf("rolled back to %+v: %v", got, err)
		}
		is(t, in, to, as)
	}
	back(0, 2, 4, 2)
	back(0, 1, 5, 1)
	noRollback("behind the first release", 0)
	back(3, 3, 6, 3)
	publish(t, in, 7)
	back(0, 3, 8, 3)
	noRollback("to a release that there is not", 99)
	odd, err := policy.Publish(ctx, in, File(9), policy.Publication{By: "\x1b[2Jann\n", Note: strings.Repeat("é", 500)})
	if err != nil || odd.By != "[2Jann" || len(odd.Note) != 200 {
		t.Errorf("odd names: %+v, %v", odd, err)
	}
}

func wrongFile(t *testing.T, in policy.Archive) {
	publish(t, in, 1)
	var wrong *policy.Error
	_, err := policy.Publish(t.Context(), in, policy.File{Name: "x", Text: []byte("policies: {api: {limits: {a: {limit: 1/eon, by: ip, cots: 1}}}}")}, policy.Publication{})
	if !errors.As(err, &wrong) || len(wrong.Problems) != 2 {
		t.Errorf("a wrong file: %v", err)
	}
	if _, err := policy.Publish(t.Context(), in, policy.File{Name: "x", Text: make([]byte, policy.MaxBytes+1)}, policy.Publication{}); !errors.As(err, &wrong) {
		t.Errorf("a file that is too large: %v", err)
	}
	is(t, in, 1, 1)
}

// Of those who have seen the same release, one publishes. Of those who replace whatever is there, all
// do, one after the other.
func overtaken(t *testing.T, in policy.Archive) {
	const publishers = 8
	race := func(replaces *policy.Release) (won int) {
		t.Helper()
		var all sync.WaitGroup
		errs := make([]error, publishers)
		for i := range publishers {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				_, errs[i] = policy.Publish(ctx, in, File(int(time.Now().UnixNano()%1e6)*publishers+i+1), policy.Publication{Replaces: replaces})
			})
		}
		all.Wait()
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, policy.ErrOvertaken):
				t.Errorf("an error of another kind: %v", err)
			}
		}
		return won
	}
	check.Equal(t, "publishers that came first", race(&policy.Release{}), 1)
	last := all(t, in)[0]
	check.Equal(t, "publishers that have replaced it", race(&last), 1)
	check.Equal(t, "publishers that have replaced whatever was there", race(nil), publishers)
	if got := all(t, in); len(got) != 2+publishers || got[0].Number != 2+publishers {
		t.Errorf("the log has %d releases, the last one is %v", len(got), got[0])
	}
	if _, err := policy.Publish(t.Context(), in, File(1), policy.Publication{Replaces: &last}); !errors.Is(err, policy.ErrOvertaken) {
		t.Errorf("replacing an old release: %v", err)
	}
	if _, err := policy.Rollback(t.Context(), in, 1, policy.Publication{Replaces: &last}); !errors.Is(err, policy.ErrOvertaken) {
		t.Errorf("rolling back over an old release: %v", err)
	}
}

func bounded(t *testing.T, in policy.Archive) {
	const n = policy.KeptReleases + 7
	for i := range n {
		publish(t, in, i+1)
	}
	got := all(t, in)
	if len(got) != policy.KeptReleases || got[0].Number != n || got[len(got)-1].Number != 8 {
		t.Errorf("of %d releases, %d are kept, from %v to %v", n, len(got), got[len(got)-1], got[0])
	}
	if _, err := in.Read(t.Context(), 7); !errors.Is(err, policy.ErrNoRelease) {
		t.Errorf("a release that is no longer kept: %v", err)
	}
}

func large(t *testing.T, in policy.Archive) {
	const n = 8
	for i := range n {
		file := File(i + 1)
		file.Text = append(file.Text, "# "+strings.Repeat("x", policy.MaxBytes*3/4)+"\n"...)
		must.Get(in.Add(t.Context(), file, policy.Release{}, -1))(t) // not Publish, which reads it
	}
	const want = policy.KeptBytes / (policy.MaxBytes * 3 / 4)
	if got := all(t, in); len(got) != want || got[0].Number != n {
		t.Errorf("%d releases are kept, want %d", len(got), want)
	}
}

// Each process of a fleet follows, and a file that is wrong changes nothing.
func follows(t *testing.T, in policy.Archive) {
	publish(t, in, 1)
	set := must.Get(policy.From(in, policy.Options{AnyName: true, Logger: slog.New(slog.DiscardHandler)}))(t)
	defer set.Watch(t.Context())()
	for n := 2; n < 5; n++ {
		publish(t, in, n)
		wait.Until(t, "a process follows", func() bool { return set.Status().Version.Name == fmt.Sprintf("v%d", n) })
	}
	must.Get(policy.Rollback(t.Context(), in, 0, policy.Publication{}))(t)
	wait.Until(t, "a process follows a roll-back", func() bool { return set.Status().Version.Name == "v3" })
	must.Get(in.Add(t.Context(), policy.File{Name: "x", Text: []byte("policies: 1")}, policy.Release{}, -1))(t)
	wait.Until(t, "a process refuses", func() bool { return set.Status().Err != nil })
	check.Equal(t, "what decides", set.Status().Version.Name, "v3")
}
