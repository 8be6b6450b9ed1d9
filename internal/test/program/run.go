package program

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Running is a program that runs until its test ends.
type Running struct {
	tb    testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner
	log   child.Output // its standard error
}

// Races is a variable of the environment of programs that tests start. Each race ends them, so that a test cannot overlook one;
// and they end at once otherwise, where the race detector waits a second for reports of other threads.
const Races = "GORACE=halt_on_error=1 atexit_sleep_ms=20"

// Command returns a command that runs a program on a free port, with further variables in its environment.
func Command(name string, env ...string) *exec.Cmd {
	cmd := exec.Command(name)
	cmd.Env = slices.Concat(os.Environ(), []string{"ADDR=127.0.0.1:0", "DATABASE_URL=", "REDIS_ADDR=", "REDIS_URL=", Races}, env)
	cmd.WaitDelay = time.Minute
	return cmd
}

// Start starts a command. The program is killed when the test ends, unless [Running.Interrupt] has ended it.
func Start(tb testing.TB, cmd *exec.Cmd) *Running {
	tb.Helper()
	r := &Running{tb: tb, cmd: cmd}
	cmd.Stderr = &r.log
	r.lines = bufio.NewScanner(must.Get(cmd.StdoutPipe())(tb))
	must.OK(tb, child.Start(cmd))
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		if tb.Failed() && r.log.String() != "" {
			tb.Logf("%s has logged\n%s", cmd, &r.log)
		}
	})
	return r
}

// Line returns the next line that the program prints and pattern matches.
func (r *Running) Line(pattern *regexp.Regexp) string {
	r.tb.Helper()
	for r.lines.Scan() {
		if pattern.MatchString(r.lines.Text()) {
			return r.lines.Text()
		}
	}
	r.tb.Fatalf("%s ends without a line like %v: %v", r.cmd, pattern, r.lines.Err())
	return ""
}

// URL returns the first address that the program prints after what pattern matches, without a path.
func (r *Running) URL(pattern string) string {
	r.tb.Helper()
	expression := regexp.MustCompile(pattern + `.*?(http://[^/\s]+)`)
	return expression.FindStringSubmatch(r.Line(expression))[1]
}

// Interrupt ends the program as Ctrl-C does, which has to be no error.
func (r *Running) Interrupt() {
	r.tb.Helper()
	check.OK(r.tb, r.cmd.Process.Signal(os.Interrupt))
	for r.lines.Scan() { // until it ends
	}
	if err := r.cmd.Wait(); err != nil {
		r.tb.Errorf("it ends with %v", err)
	}
}
