package bench

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/bench/peers"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// round rotates the order of the peers, so that no peer is first in every round.
var round = flag.Int("round", 0, "rotate the order of the peers by this many")

// loadConfig makes this binary send requests to a server instead of running tests.
var loadConfig = flag.String("load", "", "ask a server as this load.Config says, in JSON, and print the result")

// benchtime is enough for stable medians over rounds, and keeps one round at about two minutes.
const benchtime = "150ms"

func TestMain(m *testing.M) {
	flag.Parse()
	if *loadConfig != "" {
		if err := generateLoad(*loadConfig); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if flag.Lookup("test.bench").Value.String() != "" {
		if !isSet("test.benchtime") {
			_ = flag.Set("test.benchtime", benchtime) // it parses
		}
		describe()
	}
	os.Exit(redistest.Main(m))
}

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// describe prints what the figures depend on, before them and in the format of benchmark results.
func describe() {
	fmt.Printf("date: %s\n", time.Now().UTC().Format(time.DateOnly))
	fmt.Printf("go: %s\n", runtime.Version())
	fmt.Printf("procs: %d\n", runtime.GOMAXPROCS(0))
	if out, err := exec.Command(redistest.Program(), "--version").Output(); err == nil {
		if _, v, ok := bytes.Cut(out, []byte(" v=")); ok {
			fmt.Printf("redis: %s\n", bytes.Fields(v)[0])
		}
	}
	for _, p := range peers.All() {
		fmt.Printf("peer: %s|%s|%s|%s|%t\n", p.Name, p.Module, version(p.Module), p.Counts, p.Baseline)
	}
	fmt.Printf("peer: go-redis|%s|%s|the client of all but rueidis-script|true\n", goRedisModule, version(goRedisModule))
	fmt.Printf("peer: gin|%s|%s|the framework|true\n", ginModule, version(ginModule))
}

const (
	goRedisModule = "github.com/redis/go-redis/v9"
	ginModule     = "github.com/gin-gonic/gin"
)

// rotated returns all peers that have what has says, in the order of this round.
func rotated(has func(peers.Peer) bool) []peers.Peer {
	all := slices.DeleteFunc(peers.All(), func(p peers.Peer) bool { return !has(p) })
	n := *round % len(all)
	return slices.Concat(all[n:], all[:n])
}

// counts are the numbers of keys that scenarios have, and their names.
var counts = map[int]string{1: "1-key", burst: "1000-keys", 100_000: "100k-keys", 1_000_000: "1M-keys"}
