// Command report runs the benchmarks of this module in several rounds and makes a page of
// their medians. It is run from the module's directory:
//
//	go run ./report -o ../docs/benchmarks.md
//	go run ./report -rounds 9 -raw results.txt -o ../docs/benchmarks.md
//	go run ./report results.txt    prints the page made of results that were kept
//
// Each round is a process of its own, which asks the peers in another order. All figures of
// the page are from the results; whatever else it says is in page.md.tmpl.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

func main() {
	var (
		rounds    = flag.Int("rounds", 5, "how many `times` to run all benchmarks")
		benchmark = flag.String("bench", ".", "which benchmarks: a `regexp` as for go test")
		benchtime = flag.String("benchtime", "", "how long each runs (default that of the benchmarks)")
		raw       = flag.String("raw", "", "keep the results in this `file`")
		output    = flag.String("o", "", "write the page to this `file` (default standard output)")
	)
	flag.Parse()
	if err := report(*rounds, *benchmark, *benchtime, *raw, *output, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func report(rounds int, benchmark, benchtime, raw, output string, files []string) error {
	results, err := read(files)
	if len(files) == 0 {
		results, err = run(rounds, benchmark, benchtime)
	}
	if raw != "" && len(results) > 0 {
		err = errors.Join(err, os.WriteFile(raw, results, 0o644))
	}
	if err != nil {
		return err
	}
	all, err := parse(bytes.NewReader(results))
	if err != nil {
		return err
	}
	p, err := page(all)
	if err != nil {
		return err
	}
	if output == "" {
		_, err = os.Stdout.Write(p)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	return os.WriteFile(output, p, 0o644)
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
func run(rounds int, benchmark, benchtime string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "bench.test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("building the benchmarks: %w", err)
	}
	var results bytes.Buffer
	for i := range rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", i+1, rounds)
		args := []string{"-test.run=^$", "-test.timeout=1h", "-test.bench=" + benchmark, "-round=" + strconv.Itoa(i)}
		if benchtime != "" {
			args = append(args, "-test.benchtime="+benchtime)
		}
		cmd := exec.Command(binary, args...)
		cmd.Stdout, cmd.Stderr = io.MultiWriter(&results, os.Stderr), os.Stderr
		if err := cmd.Run(); err != nil {
			return results.Bytes(), fmt.Errorf("round %d: %w", i+1, err)
		}
	}
	return results.Bytes(), nil
}
