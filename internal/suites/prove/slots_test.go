package prove

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// TestSlots asks for three limits in three slots of a Cluster. Such requests are not decided at one
// instant, so their histories are not linearizable. What docs/run/guarantees.md promises is checked instead:
// each request that was admitted is charged everywhere, each that was denied nowhere, and no limit is exceeded.
func TestSlots(t *testing.T) {
	cluster := redistest.StartClusterOf(t, 3, 0)
	o := order{Addr: cluster.Nodes()[0].Addr(), Cluster: true}
	processes := startAll(t, o)
	own := must.Get(o.open())(t)
	each(t, 0.04, func(seed uint64, count *tally) *history {
		h := newHistory("slots", seed, long...)
		h.job.Spread, h.job.Clients, h.job.Keys, h.job.Limits = true, 2, 3, nil
		quotas := [3]int64{30, 45, 60}
		for i := range quotas {
			h.job.Limits = append(h.job.Limits, limit{
				Name: fmt.Sprintf("slots%d", i), Algorithm: calendarDay, Zone: "UTC", Quota: quotas[(int(seed%3)+i)%3],
			})
		}
		day, _ := dayOf("UTC", time.Now().UnixMicro())
		together(t, h, processes)
		if now, _ := dayOf("UTC", time.Now().UnixMicro()); now == day && h.equal(t, own.store) { // or what was used is of yesterday
			count.note("sums compared", h.job.Clients*len(h.job.Limits))
		}
		count.Operations += len(h.operations)
		h.operations, h.job.Clients = nil, 0 // there is no order to be found
		return h
	})
}

// equal fails the test unless each limit has been charged what was granted. It returns false if nobody
// can say what was.
func (h *history) equal(tb testing.TB, s store.Store) bool {
	tb.Helper()
	granted := make([]int64, h.job.Clients)
	for _, o := range h.operations {
		if o.Err != "" {
			return false // it may have been charged or not
		}
		for _, r := range o.Results[1:] {
			if r.Charged != o.Results[0].Charged {
				tb.Errorf("seed %d: one limit was charged and another was not: %s", h.seed, o.describe(h.job.Limits))
			}
		}
		if o.Results[0].Charged {
			granted[o.Client] += o.Checks[0].Cost
		}
	}
	var all sync.WaitGroup
	for client := range h.job.Clients {
		for i := range h.job.Limits {
			all.Go(func() {
				rule, err := h.job.Limits[i].rule()
				if err != nil {
					tb.Error(err)
					return
				}
				ctx, cancel := context.WithTimeout(tb.Context(), 2*patience)
				defer cancel()
				used := int64(-1)
				// Charges are given back in the background.
				for deadline := time.Now().Add(patience); used != granted[client] && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
					results := make([]store.Result, 1)
					if err := s.Peek(ctx, []store.Check{{Key: h.job.key(client, i), Rule: rule}}, results); err != nil {
						tb.Error(err)
						return
					}
					used = rule.Burst - results[0].Remaining
				}
				if used != granted[client] {
					tb.Errorf("seed %d: %v of client %d has %d units used, and %d were granted", h.seed, &h.job.Limits[i], client, used, granted[client])
				}
			})
		}
	}
	all.Wait()
	return true
}
