package billing

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/quota"
)

// Redis is emptied again and again under the load of four processes. What is granted beyond the quota is at
// most what the processes had not written each time.
func TestRedisEmptiedUnderLoad(t *testing.T) {
	t.Parallel()
	units := long.Rounds[int64](5000, 20_000)
	s := newScenario(t, 3, order{Goroutines: long.Rounds(16, 64), Tenants: 2, Quota: units, FlushEvery: 100 * time.Millisecond, TakeOnly: true})
	for range 4 {
		s.start()
	}
	book := s.open(t)
	for deadline := time.Now().Add(20 * time.Second); len(s.losses) < long.Rounds(4, 12) && time.Now().Before(deadline); {
		s.sleep(20*time.Millisecond, 60*time.Millisecond)
		if s.planUsed(t, book)[0] > units*8/10 { // the worst moment
			s.lose("emptied")
		}
	}
	time.Sleep(500 * time.Millisecond)
	s.finish()
	ledger := s.planUsed(t, book)
	for n := range 2 {
		var sum, over, bound int64
		for _, r := range s.records() {
			for _, o := range r.operations {
				if o.outcome != granted || o.tenant != n || o.limits&1 == 0 { // or the other limit has paid
					continue
				}
				sum += o.units
				for _, l := range s.losses { // not written, when Redis lost it
					if o.begin <= l.at && o.end >= r.written(l.began) {
						bound += o.units
					}
				}
			}
		}
		over = max(0, sum-units)
		figure(t, fmt.Sprintf("units granted of %d, beyond the quota, and bound", units), []int64{sum, over, bound})
		if over > bound {
			t.Errorf("%s: %d units were granted, %d beyond the quota, and %d were not written when Redis lost them", tenant(n), sum, over, bound)
		}
		if got := ledger[n]; got != sum {
			t.Errorf("%s: the ledger has %d units, and %d were granted", tenant(n), got, sum)
		}
	}
}

// planUsed returns what the ledger says of the first limit, by tenant.
func (s *scenario) planUsed(t *testing.T, book *quota.Book) map[int]int64 {
	t.Helper()
	all := make(map[int]int64)
	for id, used := range s.usage(t, book) {
		if id.limit == 0 {
			all[id.tenant] += used
		}
	}
	return all
}
