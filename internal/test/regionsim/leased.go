package regionsim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/regions"
)

// leased is the product's design: a store of package regions in each region, over a store of the region's own and a
// link to home, which is none of them.
type leased struct {
	stores []*regions.Store
	links  []*link
	rule   *store.Rule
	meter  *meter
	began  time.Time

	running sync.WaitGroup // requests
	mu      sync.Mutex
	failed  error // guarded by mu: the first error
}

func newLeased(c *Config, rule *store.Rule, overdraft int64, keyOf map[string]int) (*leased, error) {
	d := &leased{rule: rule, began: time.Now()}
	var err error
	if d.meter, err = newMeter(c, rule, overdraft); err != nil {
		return nil, err
	}
	home := memstore.New()
	for region := range c.Regions {
		l := &link{
			Store: home, config: c, region: region, began: d.began, oneWay: c.RoundTrips[region%len(c.RoundTrips)] / 2,
			leased: func(name []byte, units int64) {
				if key, ok := keyOf[string(name)]; ok { // and no record of home's own
					d.meter.lease(key, name, units)
				}
			},
		}
		local := memstore.New()
		local.OnEvent(func(store.Event) {}) // instead of the log
		s, err := regions.New(here{local}, l, regions.Config{
			Region: fmt.Sprint("r", region), Regions: c.Regions, Floor: c.Floor, MaxKeys: 1 << 20, // all, so that no chance decides which are forgotten
		})
		if err != nil {
			return nil, err
		}
		declared := store.Declaration{Rule: *rule, Regions: store.Regions{Overdraft: overdraft}}
		if err := s.Registry().Register(declared); err != nil {
			return nil, err
		}
		d.stores, d.links = append(d.stores, s), append(d.links, l)
	}
	return d, nil
}

// request is a request on its way, and its context: regions read nothing but the deadline.
type request struct {
	context.Context // the background's
	number          uint64
	key, region     int
	name            []byte
	exact           bool // granted by the exact limiter
	sent, deadline  time.Time
	tries           int // of the region's store
}

// Deadline implements context.Context.
func (r *request) Deadline() (time.Time, bool) { return r.deadline, true }

// begin has a request decided, in a goroutine of its own, since it may wait for home.
func (d *leased) begin(r request) {
	d.running.Go(func() {
		checks, results := [...]store.Check{{Key: r.name, Rule: d.rule, Cost: 1}}, [1]store.Result{}
		if err := d.stores[r.region].Take(&r, checks[:], results[:]); err != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.failed == nil {
				d.failed = err
			}
			return
		}
		d.meter.answered(r.key, r.region, r.name, results[0].At, results[0].Charged, r.exact, time.Since(r.sent))
	})
}

// end waits for all requests and returns the outcome. Then it has the regions forget all keys: while they know of shares,
// which last for a day or longer, they look after home.
func (d *leased) end(names [][]byte) (Outcome, error) {
	d.running.Wait()
	out := d.meter.outcome()
	for i, s := range d.stores {
		out.Messages += d.links[i].asked.Load()
		out.Counts.Add(s.Stats().Counts)
		for _, name := range names {
			if err := s.Reset(context.Background(), []store.Check{{Key: name, Rule: d.rule}}); err != nil {
				return out, err
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return out, d.failed
}
