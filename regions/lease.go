package regions

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// lease is units that are asked of home.
type lease struct {
	done    chan struct{} // closed when there is an answer, or none comes
	granted bool          // set before done is closed
	counts  *counts       // of its limit
}

const (
	// maxGrowth bounds a lease by a multiple of the one before it, while it is not known how much is needed.
	maxGrowth = 4

	// horizonShare: a lease is to last for at least 1/horizonShare of a period.
	horizonShare = 16

	// firstShare: the first lease of a key is up to 1/firstShare of what home has.
	firstShare = 32

	// longestEmpty is how long home is believed to have nothing left, in case somebody gives units back or resets the
	// limit.
	longestEmpty = 10 * time.Second

	// mostAttempts is how often a lease is tried with fewer units.
	mostAttempts = 3

	// retryPause is the pause before the first repetition of a question that was not answered; it doubles.
	retryPause = 50 * time.Millisecond

	// afterRefusal is how long home is not asked again for a key after units that could not be taken.
	afterRefusal = time.Second
)

// begin has the period that ends at a time begin, unless it has begun already. k.mu is held.
func (k *key) begin(ends, until int64) {
	k.until = until
	if k.ends == ends {
		return
	}
	k.before = k.inPeriod
	if k.ends == 0 {
		k.before = 0
	}
	k.ends, k.share, k.spend, k.left, k.knowsOf = ends, 0, nil, 0, false
	k.emptyTil, k.size, k.leasedAt, k.asked, k.inPeriod = 0, 0, 0, 0, 0
	k.open = question{} // what was charged for it is of a window that is over
}

// end notes that the period which ends at a time is over. k.mu is held.
func (k *key) end(ends int64) {
	if k.ends == ends {
		k.until = 0
	}
}

// setShare notes how many units the region has leased for the period. k.mu is held.
func (k *key) setShare(p *plan, share int64) {
	total := share + p.mode.Overdraft
	if total <= 0 || k.spend != nil && k.spend.Burst >= total {
		return
	}
	rule, err := p.spend(k.ends, total)
	if err != nil {
		return // more units than can be counted
	}
	if k.spend != nil {
		k.left += total - k.spend.Burst
	} else {
		k.left = total
	}
	k.share, k.spend = share, rule
}

// isEmpty reports whether home is not to be asked, since it has nothing left. k.mu is held.
func (k *key) isEmpty(now int64) bool { return now < k.emptyTil }

// isLow reports whether what is left will be used up before more could be here. k.mu is held.
func (k *key) isLow(now, trip int64) bool {
	return k.share > 0 && k.left < max(k.size/4, k.rateOver(now, 2*trip))
}

// rateOver returns how many units requests will ask for in so many nanoseconds, if they go on as since the last lease,
// or as in the period before. k.mu is held.
func (k *key) rateOver(now, d int64) int64 {
	passed := max(now-k.leasedAt, int64(time.Millisecond))
	if k.leasedAt == 0 {
		return 0
	}
	return int64(float64(k.asked) * float64(d) / float64(passed)) // an estimate: nothing is decided by it
}

// leaseFor returns the lease that is on its way, or begins one for a request of a cost. It returns nil if home has
// nothing, does not answer, or is asked too much already. k.mu is held.
func (s *Store) leaseFor(p *plan, name []byte, k *key, cost int64) *lease {
	now := s.now()
	switch {
	case k.lease != nil:
		return k.lease
	case now < k.emptyTil, now >= k.until, cost > p.pool.Burst, s.isAway():
		return nil
	}
	select {
	case s.leasing <- struct{}{}:
	default:
		p.counts.crowded.Add(1)
		return nil
	}
	units, all := s.sizeOf(p, k, cost, now)
	l := &lease{done: make(chan struct{}), counts: p.counts}
	k.lease, k.size, k.leasedAt, k.asked = l, units, now, 0
	name = append([]byte(nil), name...)
	ends := k.ends
	go func() {
		defer func() { <-s.leasing }()
		s.fetch(p, name, k, ends, units, cost, all, l)
	}()
	return l
}

// sizeOf returns how many units to lease: what is needed until a part of the period has passed, or four round trips,
// but no more than half of what home has left. all reports whether that is as much as is needed. k.mu is held.
func (s *Store) sizeOf(p *plan, k *key, cost, now int64) (units int64, all bool) {
	left := k.until - now
	length := p.length(left)
	horizon := min(s.horizon(length), left)
	units = p.pool.Burst / firstShare
	switch {
	case k.leasedAt != 0:
		units = min(k.rateOver(now, horizon), maxGrowth*k.size)
	case k.before > 0:
		units = int64(float64(k.before) * float64(horizon) / float64(length))
	}
	most := p.pool.Burst / 2
	if k.knowsOf {
		most = k.pool / 2
	}
	return max(min(units, most), cost, 1), units <= most
}

// horizon returns for how long a lease is to last at least, in nanoseconds.
func (s *Store) horizon(length int64) int64 { return max(length/horizonShare, 4*s.trip.Load()) }

// length returns how long a period is, or what is left of it, if it is the calendar's.
func (p *plan) length(left int64) int64 {
	switch {
	case p.rule.Algorithm == store.TokenBucket:
		return int64(periodOf(p.rule))
	case p.rule.Window > 0:
		return int64(p.rule.Window)
	}
	return left
}

// refill returns how many units come back to home in so many nanoseconds: 0 for windows.
func (p *plan) refill(d int64) int64 {
	if p.rule.Algorithm != store.TokenBucket {
		return 0
	}
	return int64(float64(p.pool.Quota) * float64(d) / float64(p.pool.Window)) // an estimate: nothing is decided by it
}

// fetch asks home for units, and adds them to the share of the region.
func (s *Store) fetch(p *plan, name []byte, k *key, ends, units, cost int64, all bool, l *lease) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.HomeTimeout)
	defer cancel()
	sent := s.now()
	result, units, remembers, err := s.ask(ctx, p, name, k, units, cost)
	granted := err == nil && units > 0
	var share int64
	if granted {
		end := p.endOfPool(&result)
		switch {
		case end != 0 && end != ends:
			s.noteSkew(p, k, ends, sent, result.At, units)
			granted = false
		case !remembers:
			granted = false
		case p.forgot(&result, k.leased(), units):
			s.tell(ctx, p, name, ends, p.pool.Burst-result.Remaining-units)
			granted = false
		}
		if !granted {
			s.giveBack(ctx, p, name, units, result)
		} else if share, err = s.addToShare(ctx, p, name, ends, units); err != nil {
			granted = false
			p.counts.lost.Add(units)
		}
	}
	if granted {
		p.counts.leased.Add(units)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(l.done)
	k.lease = nil
	if k.ends != ends {
		return // what was leased is of a period that is over
	}
	now := s.now()
	switch {
	case granted:
		l.granted = true
		k.pool, k.knowsOf, k.size = result.Remaining, true, units
		k.setShare(p, share)
		s.watch()
		if refill := p.refill(s.horizon(p.length(0))); !all && result.Remaining < refill {
			k.emptyTil = now + s.horizon(p.length(0)) // until some have come together again
		}
	case err != nil && units > 0: // the region's own store did not answer
		k.emptyTil = now + int64(afterRefusal)
	case err != nil:
		p.counts.failed.Add(1)
		s.lose(err)
	case units > 0: // they went back: home is in another window, or does not know what was leased
		k.emptyTil = now + int64(afterRefusal)
	default:
		k.pool, k.knowsOf = result.Remaining, true
		wait := longestEmpty
		if result.RetryAfter > 0 {
			wait = min(wait, result.RetryAfter)
		}
		k.emptyTil = now + max(int64(wait), 2*s.trip.Load())
		if p.rule.Algorithm == store.TokenBucket {
			k.emptyTil = max(k.emptyTil, now+s.horizon(p.length(0)))
		}
	}
}

// question is a question for units that home has not answered yet.
type question struct {
	once  []byte // names it, so that its units are charged once however often it is asked
	units int64
	asked int64 // when it was first asked, on the process's clock
}

// ask asks home for units, or fewer if it has not so many, but at least for the cost of a request. It returns 0 units
// if home has nothing left, and whether home remembers what it has leased. A question that is not answered is repeated:
// now, and instead of the key's next one.
func (s *Store) ask(ctx context.Context, p *plan, name []byte, k *key, units, cost int64) (r store.Result, granted int64, remembers bool, err error) {
	q := k.question(units, cost, s.now())
	checks, answer := []store.Check{{Key: name, Rule: p.pool, Cost: q.units, Once: q.once}, s.memory.check()}, make([]store.Result, 2)
	pause := retryPause
	for attempts := 0; ; {
		p.counts.messages.Add(1)
		sent := s.now()
		err := s.home.Take(ctx, checks, answer)
		r := &answer[0]
		switch {
		case err != nil:
			select {
			case <-ctx.Done():
				return store.Result{}, 0, false, err
			case <-time.After(pause):
				pause *= 2
				continue
			}
		case r.Charged || r.Repeated:
			s.noteTrip(s.now() - sent)
			k.answered()
			return *r, checks[0].Cost, s.read(ctx, &answer[1]), nil
		}
		attempts++
		if r.Blocked || r.Remaining < cost || attempts == mostAttempts || checks[0].Cost <= cost {
			k.answered()
			return *r, 0, s.read(ctx, &answer[1]), nil
		}
		checks[0].Cost = max(cost, min(r.Remaining/2, checks[0].Cost-1))
	}
}

// question returns the key's question that was not answered, if it would do, or a new one.
func (k *key) question(units, cost, now int64) question {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open.units < cost || now-k.open.asked > int64(leaseMemory)/2 {
		k.open = question{[]byte(rand.Text()), units, now}
	}
	return k.open
}

// answered notes that the question was answered.
func (k *key) answered() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = question{}
}

// leased returns what the region has leased for the period.
func (k *key) leased() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.share
}

// noteTrip notes how long a question to home took.
func (s *Store) noteTrip(nanoseconds int64) {
	if before := s.trip.Load(); before != 0 {
		nanoseconds = (3*before + nanoseconds) / 4
	}
	s.trip.Store(nanoseconds)
}

// giveBack returns units to home that can't be spent.
func (s *Store) giveBack(ctx context.Context, p *plan, name []byte, units int64, result store.Result) {
	if err := s.home.Refund(ctx, []store.Check{{Key: name, Rule: p.pool, Cost: units}}, []store.Result{result}); err != nil {
		p.counts.lost.Add(units)
	}
}

// addToShare adds units to what the region has leased for a period, and returns its sum.
func (s *Store) addToShare(ctx context.Context, p *plan, name []byte, ends, units int64) (share int64, err error) {
	rule, err := p.share(ends)
	if err != nil {
		return 0, err
	}
	answer := make([]store.Result, 1)
	if err := s.local.Take(ctx, []store.Check{{Key: name, Rule: rule, Cost: units}}, answer); err != nil {
		return 0, err
	}
	return unlimited - answer[0].Remaining, nil
}

// await waits for a lease, as long as a request may. It reports whether there are units.
func (s *Store) await(ctx context.Context, l *lease) bool {
	patience := time.NewTimer(s.config.Wait)
	defer patience.Stop()
	var soon <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok { // leaves the region's store time to decide once more
		timer := time.NewTimer(time.Until(deadline) * 3 / 4)
		defer timer.Stop()
		soon = timer.C
	}
	select {
	case <-l.done:
		return l.granted
	case <-patience.C:
	case <-soon:
	case <-ctx.Done():
	}
	return false
}
