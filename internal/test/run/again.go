package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"
)

// disturbances are taken in turn, so that of four runs one is beside a build, and one in processes that stand
// still now and then.
var disturbances = []disturbance{{}, {build: true}, {}, {stops: true}}

// runAgain runs all tests several times, and prints which were red in any of them.
func runAgain(ctx context.Context, o options, units []unit) (green bool, err error) {
	b, err := build(ctx, units)
	if err != nil {
		return false, err
	}
	if len(b.broken) > 0 {
		for _, o := range b.broken {
			fmt.Print(o.story())
		}
		return false, nil
	}
	red := make(map[string][]int) // by test: in which runs
	for i := range o.again {
		d := disturbances[i%len(disturbances)]
		r := newReport(io.Discard)
		err := runTests(ctx, o, b, r, d)
		fmt.Printf("run %d of %d, %v, took %v: %d of %d packages failed\n", i+1, o.again, d, time.Since(r.began).Round(time.Second), len(r.broken), len(r.all))
		for _, o := range r.broken {
			fmt.Print(o.story())
			names := []string{short(o.pkg.ImportPath)}
			if len(o.failed) > 0 {
				names = nil
			}
			for _, f := range o.failed {
				names = append(names, short(o.pkg.ImportPath)+" "+f.test)
			}
			for _, n := range names {
				red[n] = append(red[n], i+1)
			}
		}
		if err != nil { // it was ended by hand
			printRed(os.Stdout, red, i+1)
			return false, err
		}
	}
	printRed(os.Stdout, red, o.again)
	return len(red) == 0, nil
}

// printRed prints the tests that failed, the most frequent first.
func printRed(w io.Writer, red map[string][]int, runs int) {
	fmt.Fprintf(w, "\n%d runs, %d tests red in any\n", runs, len(red))
	for _, name := range slices.SortedFunc(maps.Keys(red), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(red[b]), len(red[a])), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(w, "%3d  %s, in runs %v\n", len(red[name]), name, red[name])
	}
}
