package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// profiled are the hot paths: their benchmarks, and the functions that are not preparation.
var profiled = []struct{ name, benchmark, focus string }{
	{"hot", "^BenchmarkRedis$/^weblimit$/^1-key$/^64$/^allow$", `bench\.\(\*worker\)\.work|redisstore\.`},
	{"many", "^BenchmarkRedis$/^weblimit$/^100k-keys$/^64$/^allow$", `bench\.\(\*worker\)\.work|redisstore\.`},
	{"memory", "^BenchmarkMemory$/^weblimit$/^100k-keys$", `bench\.\(\*memorySetting\)\.run`},
	{"middleware", "^BenchmarkMiddleware$/^net-http$/^weblimit$", `\)?\.ServeHTTP|bench.*serve`},
}

// profileTime is how long a hot path is profiled: a profiler takes a hundred samples a second.
const profileTime = "1s"

// profiles runs the hot paths once more, under the profilers, and returns lines such as
//
//	profile: hot|cpu|      flat  flat%   sum%        cum   cum%
//
// No figure of a table comes from such a run.
func profiles(binary, dir string) ([]byte, error) {
	var lines bytes.Buffer
	for _, p := range profiled {
		fmt.Fprintf(os.Stderr, "profile of %s\n", p.benchmark)
		cpu, alloc := filepath.Join(dir, p.name+".cpu"), filepath.Join(dir, p.name+".alloc")
		cmd := exec.Command(binary, "-test.run=^$", "-test.bench="+p.benchmark, "-test.benchtime="+profileTime,
			"-test.cpuprofile="+cpu, "-test.memprofile="+alloc, "-test.memprofilerate=4096")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("profile of %s: %w\n%s", p.benchmark, err, out)
		}
		for _, of := range []struct{ kind, file, index string }{{"cpu", cpu, "cpu"}, {"alloc", alloc, "alloc_objects"}} {
			top := exec.Command("go", "tool", "pprof", "-top", "-nodecount=12", "-focus="+p.focus, "-sample_index="+of.index, binary, of.file)
			out, err := top.Output()
			if err != nil {
				return nil, fmt.Errorf("pprof of %s: %w", of.file, err)
			}
			_, table, _ := strings.Cut(string(out), "      flat ") // what is before names files
			if table == "" {
				continue // nothing was sampled
			}
			for line := range strings.Lines("      flat " + table) {
				fmt.Fprintf(&lines, "profile: %s|%s|%s\n", p.name, of.kind, strings.TrimRight(line, "\n "))
			}
		}
	}
	return lines.Bytes(), nil
}
