package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"
)

// printTimes builds and runs all tests, and prints where the time went: tables in the form of
// CONTRIBUTING.md. A first run with an empty GOCACHE shows what a new machine pays.
func printTimes(ctx context.Context, o options, units []unit) (green bool, err error) {
	began := time.Now()
	b, err := build(ctx, units)
	if err != nil {
		return false, err
	}
	built := time.Since(began)
	r := newReport(os.Stderr)
	r.broken = b.broken
	if err := runTests(ctx, o, b, r, disturbance{}); err != nil {
		return false, err
	}
	r.end()
	printTables(os.Stdout, b.took, r.all, built, time.Since(began)-built)
	return !r.red(), nil
}

// minorSeconds is what a row must have to be printed by itself.
const minorSeconds = 2

func printTables(w io.Writer, builds []buildTime, all []outcome, built, ran time.Duration) {
	fmt.Fprintf(w, "%d processors: built in %.0f s, ran in %.0f s\n\n", runtime.NumCPU(), built.Seconds(), ran.Seconds())
	fmt.Fprintln(w, "| Built | Programs | Seconds | Of a processor |\n| --- | ---: | ---: | ---: |")
	slices.SortFunc(builds, func(a, b buildTime) int { return cmp.Compare(b.wall, a.wall) })
	var rest buildTime
	others := 0
	for _, t := range builds {
		if t.wall.Seconds() < minorSeconds {
			others += len(t.unit.packages)
			rest.wall += t.wall
			rest.cpu += t.cpu
			continue
		}
		fmt.Fprintf(w, "| `%s`%s | %d | %.1f | %.1f |\n", t.unit.dir, withoutRace(t.unit), len(t.unit.packages), t.wall.Seconds(), t.cpu.Seconds())
	}
	fmt.Fprintf(w, "| all others | %d | %.1f | %.1f |\n", others, rest.wall.Seconds(), rest.cpu.Seconds())

	fmt.Fprintln(w, "\n| Tests of | Seconds | Of a processor | Waiting |\n| --- | ---: | ---: | ---: |")
	slices.SortFunc(all, func(a, b outcome) int { return cmp.Compare(b.elapsed, a.elapsed) })
	var other outcome
	for _, o := range all {
		if o.elapsed.Seconds() < minorSeconds {
			other.elapsed += o.elapsed
			other.cpu += o.cpu
			continue
		}
		row(w, "`"+short(o.pkg.ImportPath)+"`"+withoutRace(o.unit), o)
	}
	row(w, "all others", other)
}

// row prints what the tests of a package took. What they did not use a processor for, they waited: for time, for
// servers, or for processors that others had.
func row(w io.Writer, name string, o outcome) {
	fmt.Fprintf(w, "| %s | %.1f | %.1f | %.1f |\n", name, o.elapsed.Seconds(), o.cpu.Seconds(), max(o.elapsed-o.cpu, 0).Seconds())
}

func withoutRace(u unit) string {
	if u.race {
		return ""
	}
	return ", without the race detector"
}
