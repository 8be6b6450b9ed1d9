package core

import (
	"context"
	"time"
	"weak"
)

// renewal keeps the slots of a request that takes longer than their lease.
type renewal struct {
	timer   *time.Timer
	running bool // the store is being asked. Guarded by reservation.mu.
}

// renewLater has slots renewed in a third of their lease, so that two renewals can
// fail before it ends. What nobody settles is not held for ever: once its decision
// is out of use it is not renewed any more.
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

// renew asks the store to renew slots. Should the request end meanwhile, they are
// given back after that, by the time that they then go by.
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
	err := r.store.Renew(ctx, checks, results)
	if err != nil {
		r.instead.Failed(err)
	}
	r.change(func() {
		c.renewal.running = false
		if err == nil {
			c.result = results[0]
		}
		if !r.settled {
			c.renewal.timer.Reset(c.check.Rule.Window / 3)
		}
	})
}
