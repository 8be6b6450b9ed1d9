package adversary

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/race"
)

// requests returns how many requests a test sends: the environment variable RAW, or short.
func requests(t *testing.T, short int64) int64 {
	t.Helper()
	text := os.Getenv("RAW")
	if text == "" {
		if race.Enabled {
			short /= 5
		}
		return short
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("RAW=%s is no number of requests", text)
	}
	return n
}

// seeds calls attack for seeds, several at a time, until it has sent enough requests or has
// failed often. The environment variable SEED is the first seed, and the only one unless
// RAW is set.
func seeds(t *testing.T, short int64, parallel int, attack func(all sites, seed uint64) (requests int, failed bool)) {
	t.Helper()
	enough := requests(t, short)
	var next, sent, failures atomic.Int64
	if text := os.Getenv("SEED"); text != "" {
		seed, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("SEED=%s is no number", text)
		}
		if next.Store(seed); os.Getenv("RAW") == "" {
			enough = 1
		}
	}
	started := time.Now()
	var wg sync.WaitGroup
	if enough == 1 {
		parallel = 1
	}
	for range parallel {
		wg.Go(func() {
			all := sites{}
			defer all.close()
			for sent.Load() < enough && failures.Load() < 10 {
				n, failed := attack(all, uint64(next.Add(1)-1))
				sent.Add(int64(max(n, 1)))
				if failed {
					failures.Add(1)
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(started)
	t.Logf("%d requests on %d connections in %v, %.0f a second; %d failed", sent.Load(), next.Load(), took.Round(time.Millisecond), float64(sent.Load())/took.Seconds(), failures.Load())
}

// Requests sends random requests to frameworks, over HTTP/1.1.
func Requests(t *testing.T, frameworks []*Framework) {
	t.Helper()
	seeds(t, 50_000, runtime.GOMAXPROCS(0), func(all sites, seed uint64) (int, bool) {
		f, a := newAttack(seed, frameworks)
		n, w := all.of(f, a).suffer(a)
		if w == nil {
			return n, false
		}
		all.report(t, f, a, w, fmt.Sprintf("SEED=%d", seed))
		return n, true
	})
}

// Frames sends random frames to those frameworks that speak HTTP/2.
func Frames(t *testing.T, frameworks []*Framework) {
	t.Helper()
	frameworks = overHTTP2(frameworks)
	// Most of the time is spent waiting for servers that have given up a connection and
	// close it a second later.
	seeds(t, 10_000, 16*runtime.GOMAXPROCS(0), func(all sites, seed uint64) (int, bool) {
		f, a := newAttack2(seed, frameworks)
		n, w := all.suffer(f, a)
		if w == nil {
			return n, false
		}
		all.report(t, f, a, w, fmt.Sprintf("SEED=%d", seed))
		return n, true
	})
}

// suffer has a framework suffer an attack, and again with more patience if a request was not served, which
// can be a busy machine's doing.
func (all sites) suffer(f *Framework, a *attack) (int, *wrong) {
	n, w := all.of(f, a).suffer(a)
	if a.http2 && w != nil && w.kind == "not served" {
		a.patience = patienceWithServers / 2
		n, w = all.of(f, a).suffer(a)
	}
	return n, w
}

func overHTTP2(frameworks []*Framework) (found []*Framework) {
	for _, f := range frameworks {
		if f.HTTP2 {
			found = append(found, f)
		}
	}
	return found
}
