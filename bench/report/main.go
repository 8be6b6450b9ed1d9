// Command report runs the benchmarks of this module in several rounds and makes pages of
// their medians. It is run from the module's directory:
//
//	go run ./report -docs ../docs
//	go run ./report -rounds 9 -raw results.txt -docs ../docs
//	go run ./report -rounds 1 -benchtime 20ms    a first look, within two minutes
//	go run ./report results.txt    prints the pages made of results that were kept
//
// Each benchmark of a round runs in its own process; each round has another order of the peers.
// All figures of the pages come from the results; their texts are in the folder pages. After the rounds,
// the hot paths run once more to be profiled.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// options are those of the command line.
type options struct {
	rounds               int
	benchmark, benchtime string
	raw, docs            string
	profiles             bool
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how many `times` to run all benchmarks")
	flag.StringVar(&o.benchmark, "bench", ".", "which benchmarks: a `regexp` as for go test")
	flag.StringVar(&o.benchtime, "benchtime", "", "how long each runs (default that of the benchmarks)")
	flag.BoolVar(&o.profiles, "profiles", true, "profile the hot paths, too")
	flag.StringVar(&o.raw, "raw", "", "keep the results in this `file`")
	flag.StringVar(&o.docs, "docs", "", "write the pages into this `folder`, besides printing them, and the figures that capacity is planned by into its run/scaling.md")
	flag.Parse()
	if err := report(o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func report(o options, files []string) error {
	results, err := read(files)
	if len(files) == 0 {
		results, err = run(o)
	}
	if o.raw != "" && len(results) > 0 {
		err = errors.Join(err, os.WriteFile(o.raw, results, 0o644))
	}
	if err != nil {
		return err
	}
	all, err := parse(bytes.NewReader(results))
	if err != nil {
		return err
	}
	written, err := pages(all)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(written)) {
		if _, err := os.Stdout.Write(written[name]); err != nil {
			return err
		}
		if o.docs == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(o.docs, name), written[name], 0o644); err != nil {
			return err
		}
	}
	if o.docs == "" {
		return nil
	}
	return replaceScaling(all, filepath.Join(o.docs, "run/scaling.md"))
}

// replaceScaling puts the figures of this run into the page about capacity.
func replaceScaling(all *results, file string) error {
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	after, err := all.scaled(before)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, after, 0o644)
}

func read(files []string) ([]byte, error) {
	var all []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		all = append(all, b...)
	}
	return all, nil
}

// run builds the benchmarks once and runs them round by round. It returns what the rounds
// printed, also those before a round that failed.
func run(o options) ([]byte, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	peers, own := filepath.Join(dir, "bench.test"), filepath.Join(dir, "redisstore.test")
	if err := build(".", ".", peers); err != nil {
		return nil, err
	}
	if err := build("..", "./core/redisstore", own); err != nil {
		return nil, err
	}
	groups, err := groupsOf(peers, o.benchmark)
	if err != nil {
		return nil, err
	}
	var results bytes.Buffer
	for i := range o.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", i+1, o.rounds)
		var commands []*exec.Cmd
		for _, g := range groups {
			commands = append(commands, exec.Command(peers, "-test.run=^$", "-test.timeout=1h", "-test.bench="+g, "-round="+strconv.Itoa(i)))
		}
		for _, bench := range []string{"^Benchmark(Breaker|Check)$", "^BenchmarkScript$/^(" + strings.Join(scripts, "|") + ")$"} {
			commands = append(commands, exec.Command(own, "-test.run=^$", "-test.bench="+bench))
		}
		for _, cmd := range commands {
			if o.benchtime != "" {
				cmd.Args = append(cmd.Args, "-test.benchtime="+o.benchtime)
			}
			cmd.Stdout, cmd.Stderr = io.MultiWriter(&results, os.Stderr), os.Stderr
			if err := cmd.Run(); err != nil {
				return results.Bytes(), fmt.Errorf("round %d: %w", i+1, err)
			}
		}
	}
	if o.profiles {
		lines, err := profiles(peers, dir)
		results.Write(lines)
		if err != nil {
			return results.Bytes(), err
		}
	}
	return results.Bytes(), nil
}

// groupsOf returns what to run: each benchmark function in its own process, since some
// peers never free their memory, and that would lengthen the garbage collections of others.
func groupsOf(binary, benchmark string) ([]string, error) {
	first, rest, _ := strings.Cut(benchmark, "/")
	out, err := exec.Command(binary, "-test.list="+first).Output()
	if err != nil {
		return nil, fmt.Errorf("listing the benchmarks: %w", err)
	}
	var groups []string
	for _, name := range strings.Fields(string(out)) {
		if strings.HasPrefix(name, "Benchmark") {
			groups = append(groups, strings.TrimSuffix("^"+name+"$/"+rest, "/"))
		}
	}
	return groups, nil
}

// build compiles the benchmarks of a package of the module in dir.
func build(dir, pkg, binary string) error {
	cmd := exec.Command("go", "test", "-c", "-o", binary, pkg)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building the benchmarks of %s: %w", pkg, err)
	}
	return nil
}
