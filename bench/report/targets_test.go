package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestTargetsAreComputed(t *testing.T) {
	t.Parallel()
	table := parsed(t, `peer: weblimit|w|v1|x|false
peer: weblimit-3|w|v1|x|false
peer: quick|q|v1|x|false
peer: slow|s|v1|x|false
peer: client|c|v1|x|true
peer: combiner-exact|c|v1|x|true
peer: floor-context|f|v1|x|true
BenchmarkRedis/weblimit/1-key/64/allow-2 10 100 ns/op 3 allocs/op
BenchmarkRedis/weblimit-3/1-key/64/allow-2 10 10 ns/op
BenchmarkRedis/quick/1-key/64/allow-2 10 150 ns/op
BenchmarkRedis/slow/1-key/64/allow-2 10 900 ns/op
BenchmarkRedis/client/1-key/64/allow-2 10 20 ns/op
BenchmarkRedis/combiner-exact/1-key/64/allow-2 10 50 ns/op
BenchmarkRedis/weblimit/100k-keys/16/allow-2 10 100 ns/op
BenchmarkRedis/quick/100k-keys/16/allow-2 10 80 ns/op
BenchmarkRedis/combiner-exact/100k-keys/16/allow-2 10 90 ns/op
BenchmarkIdle/weblimit-2 10 100 ns/op 1.02 ratio
BenchmarkScript/one-2 10 6 redis-script-µs/op
BenchmarkScript/plain_GCRA-2 10 4 redis-script-µs/op
BenchmarkMiddleware/gin/weblimit-2 10 500 ns/op
BenchmarkMiddleware/gin/floor-context-2 10 420 ns/op
`).targetTable()
	for _, want := range []string{
		"| Redis, 1 key, 64 at a time: the best limiter | ≥ 2.3× | 1.5× (quick) | 3× | **missed** by 35 % |\n",
		"| Redis, 100k keys, 16 at a time: the best limiter | ≥ 1× | 0.8× (quick) | 0.89× | missed by 20 %, and by the smallest program |\n",
		"| idle: p50 of one caller, of a plain EVALSHA | ≤ 1.05× | 1.02× | – | met |\n",
		"in a call of its own: of the shortest exact script's | ≤ 1.15× | 1.5× | – | **missed** by 30 % |\n",
		"| middleware, gin: time, of the smallest's that handlers can read | ≤ 1.25× | 1.19× | – | met |\n",
		"1 key, 64 at a time | ≤ 2 | 3 | – | **missed** by 50 % |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if strings.Contains(table, "256") || strings.Contains(table, "ulule") {
		t.Errorf("a target of which there are no figures, in\n%s", table)
	}
}

func TestProfilesStayApart(t *testing.T) {
	t.Parallel()
	all := parsed(t, output+"profile: hot|cpu|  flat\nprofile: hot|cpu|  1s a|b\nprofile: hot|alloc|  2\n")
	check.Equal(t, "cpu", all.profiles["hot|cpu"], "  flat\n  1s a|b\n")
	check.Equal(t, "alloc", all.profiles["hot|alloc"], "  2\n")
}

func TestScaledReplacesWhatIsBetweenTheMarks(t *testing.T) {
	t.Parallel()
	all := parsed(t, `procs: 2
BenchmarkRedis/weblimit/100k-keys/1/allow-2 10 100 ns/op 10 redis-cpu-µs/op
BenchmarkRedis/weblimit/100k-keys/64/allow-2 10 100 ns/op 5 redis-cpu-µs/op
BenchmarkRedis/weblimit/1-key/64/allow-2 10 100 ns/op 1 redis-cpu-µs/op
BenchmarkCost/weblimit/allow-2 10 100 ns/op 150 redis-used-B/key
`)
	page := []byte("before\n" + scalingBegins + "old\n" + scalingEnds + "after\n")
	once := must.Get(all.scaled(page))(t)
	got := string(once)
	if !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "after\n") || strings.Contains(got, "old") {
		t.Error(got)
	}
	for _, want := range []string{
		"| any keys, one check at a time | 10.00 | 100,000 | 60,000 |\n",
		"| one | 150 | 0.1 GB | 1.5 GB | 15.0 GB |\n",
		"| 300,000 | 6 | 3 | one Redis |\n",
		"| 1,000,000 | 17 | 9 | prefetch: a key has one core |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if twice, err := all.scaled(once); err != nil || !slices.Equal(once, twice) {
		t.Errorf("again: %v\n%s", err, twice)
	}
	if _, err := all.scaled([]byte("no marks")); err == nil {
		t.Error("no error without marks")
	}
}

func TestRoundTripsPerCheck(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 0.0001: "< 1/1000", 0.02: "1/50", 1.001: "1.0", 17.41: "17.4"} {
		check.Equal(t, fmt.Sprint("inverse of ", v), inverse(v), want)
	}
}
