package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/lent"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	programs "github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// lend lends servers and programs to all test processes until it is stopped. Servers live as long as this process and not for
// one run: what is made once for all of them, such as the template of PostgreSQL's data, is removed with the last one.
func lend() (stop func(), err error) {
	dir, err := programsDir()
	if err != nil {
		return nil, err
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	end, err := lent.Serve(redistest.Lend(), pgtest.Lend(), programs.Lend(root, filepath.Join(dir, "commands")))
	return func() {
		end()
		redistest.StopAll()
		pgtest.StopAll()
	}, err
}

// runTests runs all programs, so many at a time as there are lanes, and the longest first: so none of them is
// left over in the end, when the other lanes have nothing to do any more.
func runTests(ctx context.Context, o options, b *built, r *report, d disturbance) error {
	stop := d.begin(ctx)
	defer stop()
	last := b.lastTimes()
	queue := slices.Clone(b.programs)
	slices.SortStableFunc(queue, func(x, y program) int { return cmp.Compare(last[y.key()], last[x.key()]) })
	next := make(chan program)
	var wg sync.WaitGroup
	for range max(o.lanes, 1) {
		wg.Go(func() {
			for p := range next {
				if done := p.run(ctx, o, d); ctx.Err() == nil { // not if it was ended by hand
					r.add(done)
				}
			}
		})
	}
	for _, p := range queue {
		if ctx.Err() != nil {
			break
		}
		next <- p
	}
	close(next)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return b.keepTimes(r.all)
}

// key names a program in the file of times.
func (p program) key() string { return p.unit.name() + " " + p.pkg.ImportPath }

func (b *built) timesFile() string { return filepath.Join(b.dir, "times.json") }

// lastTimes returns how long each program took the last time, in seconds.
func (b *built) lastTimes() map[string]float64 {
	times := make(map[string]float64)
	for _, p := range b.programs {
		if i := slices.Index(longest, short(p.pkg.ImportPath)); i >= 0 && p.unit.tests == "" {
			times[p.key()] = float64(len(longest) - i)
		}
	}
	if text, err := os.ReadFile(b.timesFile()); err == nil {
		_ = json.Unmarshal(text, &times) // what can't be read changes the order only
	}
	return times
}

func (b *built) keepTimes(all []outcome) error {
	times := b.lastTimes()
	for _, o := range all {
		if o.result != "fail" { // which may have ended early, and would be the last to begin the next time
			times[o.key()] = o.elapsed.Seconds()
		}
	}
	text, err := json.Marshal(times)
	if err != nil {
		return err
	}
	return os.WriteFile(b.timesFile(), text, 0o600)
}

// longest is the order of a first run. A package that is missing here, or stale, costs some seconds.
var longest = []string{
	"core/redisstore", "internal/test/faults", "internal/suites/billing", "quota", "core", "examples", "internal/suites/envoy", "internal/suites/charts", "internal/suites/page",
	"cmd/weblimit", "regions", "internal/suites/proxies", "bench/service", "internal/suites/gateways", "core/pgstore",
}

// frugal has test binaries wait less before they end, by default a second for reports of other threads, and collect garbage less
// often, which takes a tenth off a processor: unless the environment says otherwise.
func frugal() (env []string) {
	for name, value := range map[string]string{"GORACE": "atexit_sleep_ms=20", "GOGC": "400"} {
		if os.Getenv(name) == "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// run runs the tests of a package.
func (p program) run(ctx context.Context, o options, d disturbance) outcome {
	args := []string{"-test.v=test2json", "-test.shuffle=on", "-test.paniconexit0", "-test.timeout=" + o.timeout.String()}
	if p.unit.tests != "" {
		args = append(args, "-test.run="+p.unit.tests)
	}
	cmd := exec.CommandContext(ctx, p.path, append(args, o.args...)...)
	cmd.Dir = p.pkg.Dir
	cmd.Env = append(append(os.Environ(), "PWD="+p.pkg.Dir), frugal()...) // as go test does
	if p.unit.drives() {
		cmd.Env = append(cmd.Env, race.ProgramsVariable+"=1")
	}
	cmd.WaitDelay = 10 * time.Second // for children that have the output open
	out := newTranscript(p)
	cmd.Stdout, cmd.Stderr = out, out // the same writer: exec then uses one pipe, and lines stay in order
	began := time.Now()
	err := child.Start(cmd)
	if err == nil {
		undisturbed := d.process(cmd.Process)
		err = cmd.Wait()
		undisturbed()
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		out.rest = append(out.rest, "a child of the tests outlived them by "+cmd.WaitDelay.String()+"\n")
	}
	done := out.end(err)
	done.elapsed = time.Since(began)
	if s := cmd.ProcessState; s != nil {
		done.cpu = s.UserTime() + s.SystemTime()
	}
	return done
}
