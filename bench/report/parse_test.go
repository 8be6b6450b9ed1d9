package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

const output = `date: 2026-01-02
procs: 2
peer: weblimit|example.com/w|this repository|token bucket|false
peer: other|example.com/o|v1.2.3|fixed window|false
goos: linux
cpu: Some CPU @ 3.0GHz
BenchmarkRedis/weblimit/1-key/64/allow-2         	   20000	      1000 ns/op	       655.4 p50-µs	      3080 p99-µs	     472 B/op	      17 allocs/op
BenchmarkRedis/other/1-key/64/allow-2            	    1000	      4000 ns/op	         0.5000 errors/op	      10 p50-µs	      20 p99-µs
BenchmarkMemory/other/1M-keys         	   20000	      90 ns/op
some log
PASS
ok  	example.com/bench	1.2s
date: 2026-01-03
peer: weblimit|example.com/w|this repository|token bucket|false
peer: other|example.com/o|v1.2.3|fixed window|false
BenchmarkRedis/weblimit/1-key/64/allow-2         	   20000	      2000 ns/op	       650 p50-µs	      3000 p99-µs	     472 B/op	      17 allocs/op
BenchmarkRedis/other/1-key/64/allow-2            	    1000	      2000 ns/op	       10 p50-µs	      20 p99-µs
`

func parsed(t *testing.T, s string) *results {
	t.Helper()
	return must.Get(parse(strings.NewReader(s)))(t)
}

func TestParse(t *testing.T) {
	t.Parallel()
	all := parsed(t, output)
	if got := all.config; got["date"] != "2026-01-03" || got["cpu"] != "Some CPU @ 3.0GHz" || got["peer"] != "" {
		t.Errorf("config %v", got)
	}
	want := []peer{
		{"weblimit", "example.com/w", "this repository", "token bucket", false},
		{"other", "example.com/o", "v1.2.3", "fixed window", false},
	}
	check.Slices(t, "peers", all.peers, want)
	// A name that ends in a number keeps it; -GOMAXPROCS goes.
	check.Slices(t, "names", all.names, []string{"Redis/weblimit/1-key/64/allow", "Redis/other/1-key/64/allow", "Memory/other/1M-keys"})
	own := all.rows["Redis/weblimit/1-key/64/allow"]
	if own.rounds != 2 || !slices.Equal(own.values["ns/op"], []float64{1000, 2000}) || !slices.Equal(own.values["p50-µs"], []float64{655.4, 650}) {
		t.Errorf("row %v", own)
	}
	check.Equal(t, "rounds", all.rounds(), "1 to 2")
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"nothing":             "PASS\n",
		"a failed benchmark":  output + "--- FAIL: BenchmarkMemory/x\n",
		"a value of no unit":  "BenchmarkX 1 2 ns/op 3\n",
		"a value of no digit": "BenchmarkX 1 2 ns/op x B/op\n",
		"a short peer":        "peer: a|b\n" + output,
	} {
		if _, err := parse(strings.NewReader(s)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of   []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{3, 1}, 2},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 2, 9}, 3},
	} {
		v := slices.Clone(tt.of)
		if got := median(v); got != tt.want || !slices.Equal(v, tt.of) {
			t.Errorf("median of %v = %v, and left %v", tt.of, got, v)
		}
	}
}
