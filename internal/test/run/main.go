// Command run runs the tests of all modules of this repository. `make test`, `make long`, `make again` and
// `make test-times` are its uses:
//
//	go run ./internal/test/run                       all tests, once
//	go run ./internal/test/run -only 'quota|policy'  packages whose import path matches
//	go run ./internal/test/run -again 20             all tests 20 times, some of them disturbed
//	go run ./internal/test/run -times                where the minutes go
//
// It builds all tests first, and then runs them, the longest first, so that no test runs beside the
// compiler. `go test` in each module would build and run by turns, and each module would wait for the slowest
// package of the one before. Packages whose tests share nothing between goroutines run without the race
// detector, and those that measure run both with and without it; see plan.go.
//
// A green run prints a line per package and how many tests passed. A red one ends with what broke,
// and with the command that repeats it alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	only    *regexp.Regexp
	lanes   int
	timeout time.Duration
	again   int
	times   bool
	own     bool
	verbose bool
	args    []string // for the test binaries
}

func parse() (o options) {
	only := flag.String("only", "", "run only packages whose import path matches this regular `expression`")
	flag.IntVar(&o.lanes, "lanes", runtime.NumCPU()+1, "how many packages run at the same time")
	flag.DurationVar(&o.timeout, "timeout", 15*time.Minute, "how long the tests of one package may take")
	flag.IntVar(&o.again, "again", 0, "run all tests `n` times, some beside a build, some in processes that are stopped for seconds")
	flag.BoolVar(&o.times, "times", false, "print where the time goes, as the tables of CONTRIBUTING.md")
	flag.BoolVar(&o.own, "own-servers", false, "no package shares a server with another one")
	flag.BoolVar(&o.verbose, "v", false, "print what the tests print, also of packages that pass")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: run [flags] [-- flags of test binaries, such as -test.run=Name]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.only = regexp.MustCompile(*only)
	o.args = flag.Args()
	return o
}

func main() { os.Exit(run()) }

func run() int {
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	units, err := plan(ctx, o.only)
	if err == nil && len(units) == 0 {
		err = fmt.Errorf("no package matches %s", o.only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if !o.own {
		end, err := lend()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		defer end()
	}
	green := false
	switch {
	case o.times:
		green, err = printTimes(ctx, o, units)
	case o.again > 0:
		green, err = runAgain(ctx, o, units)
	default:
		green, err = runOnce(ctx, o, units)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !green {
		return 1
	}
	return 0
}

// runOnce builds and runs all tests, and reports whether all passed.
func runOnce(ctx context.Context, o options, units []unit) (green bool, err error) {
	r := newReport(os.Stdout)
	r.verbose = o.verbose
	b, err := build(ctx, units)
	if err != nil {
		return false, err
	}
	r.broken = b.broken
	err = runTests(ctx, o, b, r, disturbance{})
	r.end() // also of a run that was ended by hand: what broke until then
	return !r.red(), err
}
