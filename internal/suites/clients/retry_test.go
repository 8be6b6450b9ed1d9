package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
)

// run is one request by a client, which may send it again.
type run struct {
	Client string `json:"client"`
	URL    string `json:"url"`
	path   string
	expect string // waits, ignores, givesUp, early
}

// runner sends the requests of clients, all at the same time, and returns when all have
// succeeded or given up.
type runner struct {
	kind string // clients of one kind share a process
	send func(tb testing.TB, runs []run)
}

// Clients that wait come back exactly once, and succeed: they were not early. The others
// come back at once, and are denied again. No test looks at a clock: the server's limits say
// who was early. Where a client is expected to ignore a field, an hour would have to pass.
func TestClientsComeBackInTime(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Start()
	byKind := map[string][]run{}
	runners := map[string]runner{}
	for _, c := range clients {
		if c.runner.send == nil {
			continue
		}
		runners[c.runner.kind] = c.runner
		byKind[c.runner.kind] = append(byKind[c.runner.kind], c.runs(s.URL)...)
	}
	for kind, runs := range byKind {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			runners[kind].send(t, runs)
			for _, r := range runs {
				r.check(t, s.seen(r.path))
			}
		})
	}
}

// runs returns the requests that show what a client does with Retry-After, whatever the
// dialect, and with the fields of each dialect where there is no Retry-After.
func (c client) runs(base string) (all []run) {
	add := func(scene, dialect, expect string) {
		all = append(all, newRun(base, scene, dialect, c.name, expect))
	}
	for i, d := range dialects {
		switch {
		case c.after == waits:
			add("retry-after", d.name, waits)
		case c.fields[i] != waits:
			add("hour", d.name, ignores)
		}
		if c.fields[i] == waits {
			add("fields", d.name, waits)
		} else {
			add("nothing", d.name, ignores)
		}
	}
	if c.bound != "" {
		add("hour", dialects[0].name, c.bound)
	}
	return all
}

func newRun(base, scene, dialect, client, expect string) run {
	p := path.Join("/", scene, dialect, client)
	return run{Client: client, URL: base + (&url.URL{Path: p}).String(), path: p, expect: expect}
}

// check compares how a run was answered with what is expected of its client.
func (r run) check(tb testing.TB, seen []int) {
	tb.Helper()
	denied := len(seen)
	if i := slices.Index(seen, http.StatusOK); i >= 0 {
		denied = i
	}
	switch r.expect {
	case waits:
		if denied != 1 || len(seen) != 2 {
			tb.Errorf("%s: got %v, want a denial, a wait, and success", r.path, seen)
		}
	case givesUp:
		if denied != 1 || len(seen) != 1 {
			tb.Errorf("%s: got %v, want a denial only", r.path, seen)
		}
	default:
		if denied < 2 || len(seen) != denied {
			tb.Errorf("%s: got %v, want denials only: does it wait now?", r.path, seen)
		}
	}
}

// inGo runs a client of this process, each run in a goroutine.
func inGo(name string, send func(url string)) runner {
	return runner{name, func(_ testing.TB, runs []run) {
		together(runs, send)
	}}
}

var (
	inNode   = runner{"node", func(tb testing.TB, runs []run) { _ = node(tb, "retry.mjs", runs) }}
	inPython = runner{"python3", func(tb testing.TB, runs []run) {
		name, _ := needPython(tb)
		_ = output(tb, runs, "testdata", name, "retry.py")
	}}
	withCurl = runner{"curl", func(tb testing.TB, runs []run) {
		need(tb, "curl", "--version")
		together(runs, func(url string) {
			// Without Retry-After it waits for a second, then for two.
			_, _ = start(nil, ".", "curl", "-sk", "--retry", "2", "--retry-max-time", "100", url)
		})
	}}
)

// python is the python3 that has urllib3, the first in PATH or that of Debian's packages, and
// the version of urllib3.
var python = sync.OnceValues(func() (name, version string) {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if out, err := exec.Command(name, "-c", "import urllib3; print(urllib3.__version__)").Output(); err == nil {
			return name, string(out)
		}
	}
	return "", ""
})

func needPython(tb testing.TB) (name, version string) {
	tb.Helper()
	name, version = python()
	if name == "" {
		lack(tb, errors.New("no python3 has urllib3"))
	}
	return name, version
}

// patience is how long a test waits for clients that wait although the table says that they
// ignore a field.
const patience = 2 * time.Minute

// together calls send with the URL of each run, all at the same time, and returns when all
// are done or patience has ended.
func together(runs []run, send func(url string)) {
	done := make(chan struct{}, len(runs))
	for _, r := range runs {
		go func() {
			send(r.URL)
			done <- struct{}{}
		}()
	}
	enough := time.After(patience)
	for range runs {
		select {
		case <-done:
		case <-enough:
			return
		}
	}
}

// node runs a script of testdata/node and returns what it prints.
func node(tb testing.TB, script string, input any) []byte {
	tb.Helper()
	if _, err := os.Stat("testdata/node/node_modules/.package-lock.json"); err != nil {
		lack(tb, err)
	}
	need(tb, "node", "--version")
	return output(tb, input, "testdata/node", "node", script)
}

// need skips the test unless a command succeeds, which shows that a tool is there.
func need(tb testing.TB, tool string, args ...string) {
	tb.Helper()
	if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
		lack(tb, fmt.Errorf("%s: %w %s", tool, err, out))
	}
}

// lack skips the test for lack of a tool. Where CI=true the test fails.
func lack(tb testing.TB, err error) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatalf("%v: scripts/install-clients installs what is missing", err)
	}
	tb.Skipf("%v: scripts/install-clients installs what is missing", err)
}

// output runs a command in a directory, with JSON as its input, and returns what it prints.
func output(tb testing.TB, input any, dir, name string, args ...string) []byte {
	tb.Helper()
	in := must.Get(json.Marshal(input))(tb)
	out, err := start(in, dir, name, args...)
	if err != nil {
		tb.Errorf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out
}

// start runs a command until it ends or patience has ended, and returns what it prints.
func start(input []byte, dir, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, complaints bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, bytes.NewReader(input), &out, &complaints
	err := child.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, complaints.String())
	}
	return out.Bytes(), err
}
