package adversary

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core"
)

// Visit is one request as the application saw it.
type Visit struct {
	method string
	target string

	asked   []ask         // checks that the store got
	decided core.Decision // from the adapter's FromContext, if a handler ran
	ran     int           // number of handlers that ran
	route   string        // the template of the one that ran
	status  int
	units   int64 // cost that the handler reported
	left    bool  // the handler noticed that the client left
}

// ask is one check and its result.
type ask struct {
	bucket
	cost    int64
	charged bool
}

// bucket is a key under a limit.
type bucket struct{ limit, key string }

func (b bucket) String() string { return fmt.Sprintf("%s %q", b.limit, b.key) }

type visitKey struct{}

// visiting returns ctx with the visit in it.
func visiting(ctx context.Context, v *Visit) context.Context {
	return context.WithValue(ctx, visitKey{}, v)
}

// recorder is a memory store that records its checks and what each bucket owes.
type recorder struct {
	*core.Memory

	mu    sync.Mutex
	owed  map[bucket]int64      // Guarded by mu.
	rules map[bucket]*core.Rule // by every bucket used. Guarded by mu.
}

func newRecorder() *recorder {
	return &recorder{Memory: core.NewMemory(), owed: map[bucket]int64{}, rules: map[bucket]*core.Rule{}}
}

// Take implements [core.Store].
func (r *recorder) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	err := r.Memory.Take(ctx, checks, results)
	v, _ := ctx.Value(visitKey{}).(*Visit)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range checks {
		b := r.note(&checks[i])
		if results[i].Charged {
			r.owed[b] += checks[i].Cost
		}
		if v != nil {
			v.asked = append(v.asked, ask{b, checks[i].Cost, results[i].Charged})
		}
	}
	return err
}

// Charge implements [core.Store].
func (r *recorder) Charge(ctx context.Context, checks []core.Check, results []core.Result) error {
	err := r.Memory.Charge(ctx, checks, results)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range checks {
		r.owed[r.note(&checks[i])] += checks[i].Cost
	}
	return err
}

// Refund implements [core.Store].
func (r *recorder) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	r.mu.Lock()
	for i := range checks {
		if results[i].Charged {
			r.owed[r.note(&checks[i])] -= checks[i].Cost
		}
	}
	r.mu.Unlock()
	return r.Memory.Refund(ctx, checks, results)
}

// note records the bucket of a check. r.mu is held.
func (r *recorder) note(c *core.Check) bucket {
	b := bucket{c.Rule.Name, string(c.Key)}
	r.rules[b] = c.Rule
	return b
}

// balance returns what each bucket owes.
func (r *recorder) balance() map[bucket]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.owed)
}

// reset forgets everything.
func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for b, rule := range r.rules {
		_ = r.Reset(context.Background(), []core.Check{{Key: []byte(b.key), Rule: rule}}) // it fails on no check that was taken
	}
	clear(r.owed)
	clear(r.rules)
}

// buckets returns the buckets of a visit in a fixed order.
func (v *Visit) buckets() []bucket {
	var bs []bucket
	for _, a := range v.asked {
		bs = append(bs, a.bucket)
	}
	slices.SortFunc(bs, func(a, b bucket) int {
		if a.limit < b.limit {
			return -1
		}
		return 1
	})
	return bs
}
