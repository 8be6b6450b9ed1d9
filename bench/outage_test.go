package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/bench/peers"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// BenchmarkAfterAnOutage is what a check of one key costs once Redis answers again: without an outage, after
// one in which this process has decided for the key, and after one in which it has decided for others
// that have not come back, so that Redis is still to be told of them.
func BenchmarkAfterAnOutage(b *testing.B) {
	lab := newRedisLab(b)
	settings := map[string]*setting{}
	outages := []struct {
		name   string
		others int // clients, beside the one; none at all without an outage
	}{{"without", -1}, {"told", 0}, {"10000 others untold", 10_000}}
	for _, goroutines := range []int{16, 64, 256} {
		for i, outage := range outages {
			b.Run(fmt.Sprintf("%s/%d", outage.name, goroutines), func(b *testing.B) {
				s := settings[outage.name]
				if s == nil {
					l, err := peers.Limits(peers.Server{Network: lab.server.Network(), Addr: lab.server.Addr(), DB: i + 1}, peers.OneKey, 1)
					if err != nil {
						b.Fatal(err)
					}
					s = &setting{limiter: l, keys: []string{"user:42"}, want: true}
					touch(b, l, s.keys, 1)
					if outage.others >= 0 {
						decideWithout(b, lab.server, l, append(newKeys(outage.others), s.keys...))
					}
					touch(b, l, s.keys, 1)
					settings[outage.name] = s
				}
				lab.run(b, s, goroutines)
			})
		}
	}
}

// decideWithout asks for each key while Redis does not answer, so that this process decides, and returns
// when Redis is asked again.
func decideWithout(b *testing.B, server *redistest.Server, l peers.Limiter, keys []string) {
	b.Helper()
	server.Freeze(b)
	defer server.Thaw(b)
	for _, key := range keys {
		if allowed, err := l.Check(b.Context(), key); !allowed || err == nil {
			b.Fatalf("%s: allowed %v by Redis, which is frozen; error %v", key, allowed, err)
		}
	}
	server.Thaw(b)
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := l.Check(b.Context(), keys[len(keys)-1]); err == nil {
			return
		} else if time.Since(began) > 20*time.Second {
			b.Fatalf("Redis is not asked again: %v", err)
		}
	}
}
