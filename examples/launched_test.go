package examples_test

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/program"
)

// launched are the examples whose application is in a module of its own: what stands before a URL in what
// they print, the status of a request to it without a password, and whether they print a tour that their own
// tests do not follow.
var launched = map[string]struct {
	before string
	status int
	tour   bool
}{
	"observed": {"The page:", 401, true},
	"saas":     {"The page:", 401, false},
	"service":  {"curl -i", 200, true},
}

// They still run from the root. What they start ends with them, without an error.
func fromTheRoot(t *testing.T, file string) {
	if runtime.GOOS == "windows" {
		t.Skip("a test can't send Ctrl-C there")
	}
	name := filepath.Base(file)
	want := launched[name]
	cmd := program.Command(file, program.BuildFlags())
	cmd.Dir = ".."
	running := program.Start(t, cmd)
	t.Cleanup(running.Interrupt)
	if want.tour {
		followTour(t, filepath.Join(name, "server"), running)
	} else {
		status, _, _ := request(t, "GET", running.URL(want.before))
		check.Equal(t, "the status of "+name, status, want.status)
	}
}

// Elsewhere they say where to run them.
func inACloneOnly(t *testing.T, file string) {
	cmd := program.Command(file)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "in the root of a clone") {
		t.Errorf("%v, %s", err, out)
	}
}
