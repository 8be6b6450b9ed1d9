package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
)

// run is one request by a client, which may send it again.
type run struct {
	Client string `json:"client"`
	URL    string `json:"url"`
	path   string
	waits  bool // whether it is expected to wait
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
	add := func(scene, dialect string, waits bool) {
		p := path.Join("/", scene, dialect, c.name)
		all = append(all, run{Client: c.name, URL: base + (&url.URL{Path: p}).String(), path: p, waits: waits})
	}
	for i, d := range dialects {
		switch {
		case c.after == waits:
			add("retry-after", d.name, true)
		case c.fields[i] != waits:
			add("hour", d.name, false)
		}
		if c.fields[i] == waits {
			add("fields", d.name, true)
		} else {
			add("nothing", d.name, false)
		}
	}
	return all
}

func (r run) check(tb testing.TB, seen []int) {
	tb.Helper()
	switch {
	case r.waits && fmt.Sprint(seen) != "[429 200]":
		tb.Errorf("%s: got %v, want one denial, a wait, and success", r.path, seen)
	case !r.waits && (len(seen) < 2 || seen[len(seen)-1] != 429):
		tb.Errorf("%s: got %v, want denials only: does it wait now?", r.path, seen)
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
		need(tb, "python3", "-c", "import urllib3")
		_ = output(tb, runs, "testdata", "python3", "retry.py")
	}}
	withCurl = runner{"curl", func(tb testing.TB, runs []run) {
		need(tb, "curl", "--version")
		together(runs, func(url string) {
			// Without Retry-After it waits for a second, then for two.
			_, _ = start(nil, ".", "curl", "-s", "--retry", "2", url)
		})
	}}
)

// patience is how long a test waits for clients that wait although the table says that they
// ignore a field.
const patience = 30 * time.Second

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
	need(tb, "node", "-e", "process.exit(require('fs').existsSync('testdata/node/node_modules/undici') ? 0 : 1)")
	return output(tb, input, "testdata/node", "node", script)
}

// need skips the test unless a command succeeds, which shows that a tool is there. Where
// CI=true the test fails.
func need(tb testing.TB, tool string, args ...string) {
	tb.Helper()
	out, err := exec.Command(tool, args...).CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		tb.Fatalf("%s: %v %s: scripts/install-clients installs what is missing", tool, err, out)
	default:
		tb.Skipf("%s: %v: scripts/install-clients installs what is missing", tool, err)
	}
}

// output runs a command in a directory, with JSON as its input, and returns what it prints.
func output(tb testing.TB, input any, dir, name string, args ...string) []byte {
	tb.Helper()
	in, err := json.Marshal(input)
	if err != nil {
		tb.Fatal(err)
	}
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
