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

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/internal/test/race"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	os.Exit(m.Run())
}

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

func TestRawRequests(t *testing.T) {
	t.Parallel()
	seeds(t, 50_000, runtime.GOMAXPROCS(0), func(all sites, seed uint64) (int, bool) {
		f, a := newAttack(seed)
		n, w := all.of(f, a).suffer(a)
		if w == nil {
			return n, false
		}
		all.report(t, f, a, w, fmt.Sprintf("SEED=%d", seed))
		return n, true
	})
}

func TestRawFrames(t *testing.T) {
	t.Parallel()
	// Most of the time is spent waiting for servers that have given up a connection and
	// close it a second later.
	seeds(t, 10_000, 16*runtime.GOMAXPROCS(0), func(all sites, seed uint64) (int, bool) {
		f, a := newAttack2(seed)
		n, w := all.of(f, a).suffer(a)
		if w != nil && w.kind == "not served" { // or the machine is busy
			a.patience = patienceWithServers / 2
			n, w = all.of(f, a).suffer(a)
		}
		if w == nil {
			return n, false
		}
		all.report(t, f, a, w, fmt.Sprintf("SEED=%d", seed))
		return n, true
	})
}
