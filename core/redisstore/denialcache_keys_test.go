package redisstore

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/long"
)

// Trap 30: an attacker with ten million denied keys takes no more memory than the cache
// may, and a denial in use stays in it.
func TestTenMillionDeniedKeys(t *testing.T) {
	keys := long.Rounds(100_000, 10_000_000) // 100,000 fill the cache six times
	const entry = 400                        // bytes, rounded up
	d := newDenialCache(DenialCache{Age: time.Hour, Size: DefaultDenials}, nil)
	rule := mustRule(core.PerHour(1))
	deny := []core.Result{{RetryAfter: time.Hour}}
	results := make([]core.Result, 1)
	victim := []core.Check{{Key: []byte("victim"), Rule: &rule, Cost: 1}}
	asked, _ := d.find(victim, results)
	d.keep(asked, victim, deny, d.age)

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most := uint64(0)
	key := make([]byte, 8)
	check := []core.Check{{Key: key, Rule: &rule, Cost: 1}}
	for i := range keys {
		binary.LittleEndian.PutUint64(key, uint64(i))
		if asked, known := d.find(check, results); !known {
			d.keep(asked, check, deny, d.age)
		}
		if i%(keys/10) == 0 {
			if _, known := d.find(victim, results); !known {
				t.Fatalf("after %d keys the denial in use is gone", i)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc)
		}
	}
	grown := int64(most) - int64(before.HeapAlloc)
	t.Logf("%d denied keys: at most %d KB", keys, grown/1024)
	if bound := int64(DefaultDenials * entry); grown > bound {
		t.Errorf("%d denied keys took %d bytes, want at most %d", keys, grown, bound)
	}
}
