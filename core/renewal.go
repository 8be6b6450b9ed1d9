package core

import (
	"context"
	"errors"
	"time"
	"weak"

	"github.com/weblimit/weblimit/core/store"
)

// renewal renews the leases of a request's slots while it runs.
type renewal struct {
	timer   *time.Timer
	running bool      // the store is being called. Guarded by reservation.mu.
	last    time.Time // when the leases began anew; unset before. Guarded by reservation.mu.
}

// renewLater renews the slots of charge i after a third of their lease, so that two
// renewals can fail before the lease ends. The weak pointer ends the renewals of a
// decision that is never settled, once it is garbage.
func (r *reservation) renewLater(i int) {
	held := weak.Make(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.charges[i].renewal.timer = time.AfterFunc(r.charges[i].check.Rule.Window/3, func() {
		if r := held.Value(); r != nil {
			r.renew(i)
		}
	})
}

// renew renews the slots of charge i in the store. If the request ends meanwhile, the
// slots are given back after the renewal, since the store then knows them by the time
// of the renewal.
func (r *reservation) renew(i int) {
	r.mu.Lock()
	c := &r.charges[i]
	settled := r.settled
	c.renewal.running = !settled
	checks, results := []Check{c.check}, []Result{c.result}
	r.mu.Unlock()
	if settled {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.limiter.timeout)
	defer cancel()
	began := time.Now()
	err := r.store.Renew(ctx, checks, results)
	again := c.check.Rule.Window / 3
	if err != nil {
		r.shared.Failed(err)
		if undone := (*store.Undone)(nil); errors.As(err, &undone) {
			again = min(again, retryIn()) // nothing was changed, so it can be tried soon
		}
	}
	r.change(func() {
		c.renewal.running = false
		if err == nil {
			c.result, c.renewal.last = results[0], began
		}
		if !r.settled {
			c.renewal.timer.Reset(again)
		}
	})
}
