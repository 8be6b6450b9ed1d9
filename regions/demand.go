package regions

import (
	"math"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

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
)

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
