package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// On a terminal top draws again and again, within the terminal, and leaves it as it was. A page that
// stops answering leaves what was there.
func TestTopIsLiveOnATerminal(t *testing.T) {
	t.Parallel()
	overview := must.Get(os.ReadFile(filepath.Join("testdata", "overview.json")))(t)
	var asked atomic.Int64
	var down atomic.Bool
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(overview)
	}))
	defer page.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out := new(child.Output)
	code := make(chan int, 1)
	const columns, rows = 60, 12
	go func() {
		code <- run(ctx, []string{"top", "--interval", "1s"}, streams{
			input: strings.NewReader(""), out: out, err: out, isTTY: true, size: func() (int, int) { return columns, rows },
			env: func(name string) string { return map[string]string{"WEBLIMIT_URL": page.URL}[name] },
		})
	}()
	wait.Until(t, "there is a second screen", func() bool { return strings.Count(out.String(), home) >= 2 })
	down.Store(true)
	wait.Until(t, "there is an error", func() bool { return strings.Contains(out.String(), "no answer, this is what was") })
	before := len(out.String())
	wait.Until(t, "there is another screen", func() bool { return strings.Contains(out.String()[before:], "no answer") })
	cancel() // Ctrl-C
	check.Equal(t, "the exit code after Ctrl-C", <-code, exitOK)
	text := out.String()
	if !strings.HasPrefix(text, enterScreen) || !strings.HasSuffix(text, leaveScreen) {
		t.Errorf("the terminal is not left as it was: %q … %q", text[:40], text[len(text)-40:])
	}
	for _, frame := range strings.Split(text, home)[1:] {
		if n := strings.Count(frame, "\r\n"); n >= rows {
			t.Errorf("a screen of %d lines on a terminal of %d", n, rows)
		}
		wants(t, frame, "search", "Most denied")
	}
	wants(t, text, "\x1b[31m")
}

func TestColourIsForTerminalsAlone(t *testing.T) {
	t.Parallel()
	c := replay(t)
	if r := c.run(t, "peek", "ip:192.0.2.7"); strings.Contains(r.out, "\x1b") {
		t.Errorf("escape sequences without a terminal: %q", r.out)
	}
	c.tty, c.size = true, [2]int{100, 40}
	check.Contains(t, "no colour on a terminal", c.run(t, "peek", "ip:192.0.2.7").out, "\x1b[31m")
	c.env["NO_COLOR"] = "1"
	for _, args := range [][]string{{"peek", "ip:192.0.2.7"}, {"explain", "ip:192.0.2.7"}, {"top", "--once"}, {"blocks"}, {"suggest"}} {
		r := c.run(t, args...)
		if strings.Contains(r.out, "\x1b") {
			t.Errorf("%s: escape sequences in spite of NO_COLOR: %q", args, r.out)
		}
		for _, line := range strings.Split(r.out, "\n") {
			if n := len([]rune(line)); n > 100 && args[0] != "explain" && args[0] != "peek" {
				t.Errorf("%s: a line of %d columns on a terminal of 100: %s", args, n, line)
			}
		}
	}
}

// The program itself: a signal ends a question that is under way, with its exit code.
func TestSignalsEndTheProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.OK(t, program.Build(dir, ".", "."))
	var asked atomic.Bool
	release := make(chan struct{})
	page := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Store(true)
		<-release
	}))
	defer page.Close()
	defer close(release)
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		asked.Store(false)
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "weblimit"), "peek", "user:42", "--timeout", "1m")
		cmd.Env = []string{"WEBLIMIT_URL=" + page.URL, program.Races}
		var errs bytes.Buffer
		cmd.Stderr = &errs
		must.OK(t, cmd.Start())
		wait.Until(t, "the program asks", asked.Load)
		must.OK(t, cmd.Process.Signal(signal))
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || !regexp.MustCompile(`^weblimit: interrupted\n$`).MatchString(errs.String()) {
			t.Errorf("%v: exit code %d, %q", signal, code, errs.String())
		}
	}
}
