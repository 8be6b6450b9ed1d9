package regions

import (
	"bytes"
	"context"
	"crypto/rand"
	"math"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// lease is units that are asked of home.
type lease struct {
	done    chan struct{} // closed when there is an answer, or none comes
	granted bool          // set before done is closed
	counts  *counts       // of its limit
}

// How large leases are. The numbers were chosen by the simulation in internal/test/regionsim: with larger leases there are
// fewer messages, and more units in regions that don't need them any more.
const (
	// maxGrowth bounds a lease by a multiple of the one before it: a rate that was measured over few requests says little.
	maxGrowth = 4

	// enough: a lease of so many units need not be larger to be worth its message. It is above 50, so that a key costs less than
	// a message per 50 requests while home has much.
	enough = 64

	// horizon: a lease is to last for so long, but less than 1/horizonShare of the window or of the time in which a token bucket
	// fills, and less than 1/lastsShare of the time until home has nothing left. With twice as much, token buckets whose load
	// moves from region to region were granted 1.6 % less, for 12 % fewer messages.
	horizon      = 2 * time.Second
	horizonShare = 32
	lastsShare   = 8

	// trips: but a lease lasts for so many round trips, so that the next one arrives before it is used up.
	trips = 4

	// plentyShare: enough units are leased only if they are less than this part of what home has, divided by the number of
	// regions: else a limit that is nearly used up would have what is left of it where nobody asks for it.
	plentyShare = 4

	// firstShare: while nothing is known of a key, the lease is this part of what home has, divided by the number of regions.
	firstShare = 8

	// lowShare: more is leased when 1/lowShare of the last lease is left, if not before.
	lowShare = 8

	// lately is the time constant of the rate that is measured besides that since the last lease.
	lately = 500 * time.Millisecond

	// aheadShare: the first units are leased when 1/aheadShare of the floor is left.
	aheadShare = 4

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
	k.ends, k.share, k.spend, k.left = ends, 0, nil, 0
	k.knowsOf = k.knowsOf && k.plan.flows() // or else the pool begins anew
	k.emptyTil, k.fullTil, k.size, k.leasedAt, k.asked, k.inPeriod = 0, 0, 0, 0, 0, 0
	k.open = question{} // what was charged for it is of a window that is over
}

// end notes that the period which ends at a time is over. k.mu is held.
func (k *key) end(ends int64) {
	if k.ends == ends {
		k.until = 0
	}
}

// setShare notes how many units the region has leased for the period. They become fewer if an operator resets the key.
// k.mu is held.
func (k *key) setShare(p *plan, share int64) {
	total := share + p.mode.Overdraft
	switch {
	case k.spend != nil && k.spend.Burst == total:
		return
	case total <= 0:
		k.share, k.spend, k.left = 0, nil, 0
		return
	}
	rule, err := p.spend(k.ends, total)
	if err != nil {
		return // more units than can be counted
	}
	before := int64(0)
	if k.spend != nil {
		before = k.spend.Burst
	}
	k.left = max(k.left+total-before, 0)
	k.share, k.spend = share, rule
}

// isEmpty reports whether home is not to be asked, since it has nothing left. k.mu is held.
func (k *key) isEmpty(now int64) bool { return now < k.emptyTil }

// isLow reports whether what is left will be used up before more could be here, and before the period is over.
// k.mu is held.
func (k *key) isLow(now, trip int64) bool {
	rate, left := k.rateNow(now), float64(k.left)
	return k.share > 0 && left < max(float64(k.size/lowShare), rate*float64(2*trip)) && left < rate*float64(k.until-now)
}

// ask notes that a request asks for units, granted or not. k.mu is held.
func (k *key) ask(cost, now int64) {
	k.lately = k.latelyBy(now) + float64(cost)
	k.latelyAt = now
	k.asked += cost
	k.inPeriod += cost
}

// latelyBy returns k.lately as of a time. k.mu is held.
func (k *key) latelyBy(now int64) float64 {
	return k.lately * math.Exp(-float64(now-k.latelyAt)/float64(lately))
}

// rateNow returns how many units requests ask for in a nanosecond: as many as since the last lease, or as lately if that is
// less, since the load may have moved to another region. It is an estimate, and nothing is decided by it. k.mu is held.
func (k *key) rateNow(now int64) float64 {
	if k.leasedAt == 0 {
		return 0
	}
	passed := max(now-k.leasedAt, int64(time.Millisecond))
	return min(float64(k.asked)/float64(passed), k.latelyBy(now)/float64(lately))
}

// leaseFor returns the lease that is on its way, or begins one for a request of a cost. It returns nil if home has
// nothing, does not answer, or is asked too much already. k.mu is held.
func (s *Store) leaseFor(p *plan, name []byte, k *key, cost int64) *lease {
	now := s.now()
	switch {
	case k.lease != nil:
		return k.lease
	case now < k.emptyTil, now+s.trip.Load() >= k.until, cost > p.pool.Burst, s.isAway():
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

// leaseAhead begins a lease for a request that was charged to a floor of which little is left, so that the next ones need
// not wait for it. Keys that did not need more than their floor in the window before cost no message. A floor that refills
// all the time says little of what comes: of the keys that need more, it is nearly always empty.
func (s *Store) leaseAhead(p *part, c *store.Check, r *store.Result) {
	if p.from != fromFloor || p.plan.flows() || !r.Charged || r.Remaining > p.plan.floor.Burst/aheadShare {
		return
	}
	k := s.keys.get(p.plan.id, c.Key)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.looking, k.spend != nil && s.now() < k.until, k.ends != 0 && k.inPeriod == 0:
		return
	case k.ends != 0 && s.now() < k.until:
		s.leaseFor(p.plan, c.Key, k, 1)
		return
	}
	plan := p.plan // of the call, which is used again
	s.lookLater(plan, c.Key, k, r.At+r.ResetAfter.Microseconds(), func(name []byte) {
		if k.spend == nil {
			s.leaseFor(plan, name, k, 1)
		}
	})
}

// lookLater looks at the share of a key in the background, and then calls then, which holds k.mu, if the region's store has
// answered. ends is when the period ends, or 0 if that is to be asked, too. k.mu is held.
func (s *Store) lookLater(p *plan, name []byte, k *key, ends int64, then func(name []byte)) {
	select {
	case s.leasing <- struct{}{}:
	default:
		return
	}
	k.looking, k.plan = true, p
	name = append([]byte(nil), name...)
	go func() {
		defer func() { <-s.leasing }()
		ctx, cancel := context.WithTimeout(context.Background(), s.config.HomeTimeout)
		defer cancel()
		err := s.lookUp(ctx, p, name, k, ends)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.looking = false
		if err == nil {
			then(name)
		}
	}()
}

// sizeOf returns how many units to lease: what the region needs for a while, or for longer if home has much, but not beyond
// the end of the period, and no more than half of what home has left. all reports whether that is as much as is needed.
// k.mu is held.
func (s *Store) sizeOf(p *plan, k *key, cost, now int64) (units int64, all bool) {
	regions, left := int64(s.config.Regions), k.until-now
	span := s.horizonOf(p, k)
	pool, most := p.pool.Burst, p.pool.Burst/(2*regions)
	if k.knowsOf { // other regions lease, too, so no more than what has come back in a short time
		pool = min(k.pool+k.refill(p, min(now-k.poolAt, span)), pool)
		most = pool / 2
	}
	if k.size > 0 {
		most = min(most, maxGrowth*k.size)
	}
	rate := k.rate(p, now)
	if rate == 0 {
		units = pool / (firstShare * regions)
		return max(min(units, most), cost, 1), true
	}
	need := max(rate*float64(left), 1)
	plenty := float64(pool) / float64(plentyShare*regions) * min(1, float64(pool)/(float64(regions)*need))
	if p.flows() { // what is leased too much does no harm only while home is nearly full
		plenty = float64(max(pool-p.pool.Burst*3/4, 0) / regions)
	}
	units = int64(min(need-float64(k.left), max(rate*float64(min(span, left)), min(plenty, enough))))
	return max(min(units, most), cost, 1), units <= most
}

// rate returns how many units requests ask for in a nanosecond, as far as is known: since the last lease, or by when the
// floor was used up, or in the period before. It is 0 if nothing is known. k.mu is held.
func (k *key) rate(p *plan, now int64) float64 {
	length := p.length(k.ends)
	switch {
	case k.leasedAt != 0:
		return k.rateNow(now)
	case p.floor != nil && !p.flows():
		return float64(p.floor.Burst+1) / float64(max(length-(k.until-now), int64(time.Millisecond)))
	}
	return float64(k.before) / float64(length)
}

// horizonOf returns for how long a lease is to last, in nanoseconds. k.mu is held.
func (s *Store) horizonOf(p *plan, k *key) int64 {
	length := p.length(k.ends)
	if p.rule.Algorithm == store.TokenBucket {
		n := &p.rule.Integers
		length = n.Capacity / n.Rate * n.Tick * int64(time.Microsecond) // in which it fills
	}
	span := min(length/horizonShare, int64(horizon))
	if used := p.pool.Burst - k.pool; k.knowsOf && !p.flows() && used > 0 {
		passed := max(k.poolAt-(k.until-length), 0)
		lasts := float64(passed) * float64(k.pool) / float64(used)
		span = min(span, int64(lasts)/lastsShare)
	}
	return max(span, trips*s.trip.Load())
}

// length returns how long the period is that ends at a time.
func (p *plan) length(ends int64) int64 {
	switch p.rule.Algorithm {
	case store.TokenBucket:
		return int64(periodOf(p.rule))
	case store.Calendar:
		start, end, _ := p.rule.Period(ends - 1)
		return (end - start) * int64(time.Microsecond)
	}
	return int64(p.rule.Window)
}

// flows reports whether units come back to home all the time, and not all of them at the end of a window.
func (p *plan) flows() bool {
	return p.rule.Algorithm == store.TokenBucket || p.rule.Algorithm == store.SlidingWindow
}

// refill returns how many units come back to home in so many nanoseconds, at most: of a sliding window nothing, if
// nothing was used in the window before. k.mu is held.
func (k *key) refill(p *plan, d int64) int64 {
	if !p.flows() || p.rule.Algorithm == store.SlidingWindow && k.before == 0 {
		return 0
	}
	return int64(float64(p.pool.Quota) * float64(d) / float64(p.pool.Window)) // an estimate: nothing is decided by it
}

// fetch has a lease brought, and notes what came of it.
func (s *Store) fetch(p *plan, name []byte, k *key, ends, units, cost int64, all bool, l *lease) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.HomeTimeout)
	defer cancel()
	b := s.bring(ctx, p, name, k, ends, units, cost)
	if b.granted {
		p.counts.leased.Add(b.units)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(l.done)
	if k.lease = nil; k.ends == ends { // otherwise what was leased is of a period that is over
		l.granted = b.granted
		s.note(p, k, &b, cost, all)
	}
}

// brought is what came of a lease.
type brought struct {
	result  store.Result // of home
	units   int64        // that home has charged
	granted bool         // they are in the share of the region
	share   int64        // is that now
	err     error        // home did not answer; or the region's store, if units is not 0
}

// bring asks home for units, and adds them to the share of the region. Units that can't be spent go back.
func (s *Store) bring(ctx context.Context, p *plan, name []byte, k *key, ends, units, cost int64) (b brought) {
	sent := s.now()
	var asked int64
	var remembers bool
	b.result, b.units, asked, remembers, b.err = s.ask(ctx, p, name, k, units, cost)
	if b.err != nil || b.units == 0 {
		return b
	}
	end := p.endOfPool(&b.result)
	switch {
	case end != 0 && end != ends:
		s.noteSkew(p, k, ends, sent, b.result.At, b.units)
	case b.result.Repeated && end != 0 && p.isOfBefore(end, b.result.At, s.now()-asked):
		p.counts.lost.Add(b.units)
	case !remembers:
	case p.forgot(&b.result, k.leased(), b.units):
		s.tell(ctx, p, name, ends, p.pool.Burst-b.result.Remaining-b.units)
	default:
		b.share, b.err = s.addToShare(ctx, p, name, ends, b.units)
		if b.granted = b.err == nil; !b.granted {
			p.counts.lost.Add(b.units)
		}
		return b
	}
	s.giveBack(ctx, p, name, b.units, b.result)
	return b
}

// isOfBefore reports whether a lease that was first asked for so many nanoseconds ago may have been charged in an earlier window
// than the one that ends at a time: the answer is a repetition, and at is its time.
func (p *plan) isOfBefore(ends, at, ago int64) bool {
	ago += ago/64 + int64(time.Millisecond) // clocks drift
	return (at-ends)*int64(time.Microsecond)+p.length(ends) < ago
}

// note notes what came of a lease, and until when home is not asked again. k.mu is held.
func (s *Store) note(p *plan, k *key, b *brought, cost int64, all bool) {
	now := s.now()
	switch {
	case b.granted:
		k.pool, k.poolAt, k.knowsOf, k.size, k.fullTil = b.result.Remaining, now, true, b.units, 0
		k.setShare(p, max(b.share, k.share)) // answers can come in another order
		s.watch()
		if span := s.horizonOf(p, k); !all && b.result.Remaining < k.refill(p, span) {
			k.emptyTil = now + span // until some have come together again
		}
	case b.err != nil && b.units > 0: // the region's own store did not answer
		k.emptyTil = now + int64(afterRefusal)
	case b.err != nil:
		p.counts.failed.Add(1)
		s.lose(b.err)
	case b.units > 0: // they went back: home is in another window, or does not know what was leased
		k.emptyTil = now + int64(afterRefusal)
	default:
		k.pool, k.poolAt, k.knowsOf = b.result.Remaining, now, true
		wait := longestEmpty
		if k.fullTil = 0; b.result.RetryAfter > 0 {
			if b.result.Blocked || b.result.Remaining < cost { // and not only less than a lease
				k.fullTil = now + int64(b.result.RetryAfter)
			}
			wait = min(wait, b.result.RetryAfter)
		}
		k.emptyTil = now + max(int64(wait), 2*s.trip.Load())
		if p.flows() {
			k.emptyTil = max(k.emptyTil, now+s.horizonOf(p, k))
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
// if home has nothing left, when the question was first asked, and whether home remembers what it has leased. A question that
// is not answered is repeated: now, and instead of the key's next one.
func (s *Store) ask(ctx context.Context, p *plan, name []byte, k *key, units, cost int64) (r store.Result, granted, asked int64, remembers bool, err error) {
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
				return store.Result{}, 0, 0, false, err
			case <-time.After(pause):
				pause *= 2
				continue
			}
		case r.Charged || r.Repeated:
			s.noteTrip(s.now() - sent)
			k.answered()
			return *r, checks[0].Cost, q.asked, s.read(ctx, &answer[1]), nil
		}
		attempts++
		if r.Blocked || r.Remaining < cost || attempts == mostAttempts || checks[0].Cost <= cost {
			k.answered()
			return *r, 0, q.asked, s.read(ctx, &answer[1]), nil
		}
		checks[0].Cost = max(cost, min(r.Remaining/2, checks[0].Cost-1))
		k.asksFor(q.once, checks[0].Cost)
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

// asksFor notes that a question is now one for fewer units. If it is repeated later, no more than these may be counted.
func (k *key) asksFor(once []byte, units int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if bytes.Equal(k.open.once, once) {
		k.open.units = units
	}
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
