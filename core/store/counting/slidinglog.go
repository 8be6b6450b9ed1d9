package counting

import (
	"slices"

	"github.com/weblimit/weblimit/core/store"
)

// The sliding log keeps each charge until one window later. It is exact, for quotas of up
// to maxLogQuota units. Charges of the same microsecond share an entry.

// Entry holds the charges of one microsecond in a [Bucket].
type Entry struct {
	At    int64 // microseconds since the epoch, never earlier than the entry before it
	Units int64
}

type slidingLog struct{}

func (slidingLog) used(f Form, b *Bucket, now int64) (units, rest, unit int64) {
	return f.live(b.Log, now), 0, 1
}

func (slidingLog) roll(_ *store.Rule, b *Bucket, now, _ int64) { b.Form.rollLog(b, now) }

// bringBack makes one entry of those that lie further ahead. It does not write to the array.
func (slidingLog) bringBack(r *store.Rule, b *Bucket, now int64) bool {
	near := slices.IndexFunc(b.Log, func(e Entry) bool { return e.At > now+r.Integers.Unit })
	if near < 0 {
		return false
	}
	at, units := now, int64(0)
	for _, e := range b.Log[near:] {
		units += e.Units
	}
	b.Log = slices.Clone(b.Log[:near])
	if near > 0 && b.Log[near-1].At >= now {
		b.Log[near-1].Units += units
		at = b.Log[near-1].At
	} else {
		b.Log = append(b.Log, Entry{now, units})
	}
	b.Expires = at + r.Integers.Unit
	return true
}

func (slidingLog) charge(r *store.Rule, b *Bucket, now, cost int64) { b.chargeLog(r, now, cost) }

func (slidingLog) remaining(r *store.Rule, n *[4]int64) int64 { return r.Burst - n[0] }

func (slidingLog) wait(_ *store.Rule, _ int64, n *[4]int64, one bool) int64 {
	if one {
		return n[2]
	}
	return n[1]
}

func (slidingLog) emptyAfter(_ *store.Rule, n *[4]int64) int64 { return n[3] }

// live returns the units of the entries whose window has not passed.
func (f Form) live(log []Entry, now int64) (units int64) {
	for _, e := range log {
		if e.At+f.Unit > now {
			units += e.Units
		}
	}
	return units
}

// rollLog drops the entries whose window has passed, the oldest first. It does not write
// to the array, since the store may hold it too.
func (f Form) rollLog(b *Bucket, now int64) {
	for len(b.Log) > 0 && b.Log[0].At+f.Unit <= now {
		b.X -= b.Log[0].Units
		b.Log = b.Log[1:]
	}
}

func (slidingLog) read(r *store.Rule, b *Bucket, now, cost int64, n *[4]int64) {
	n[0] = b.X
	n[1] = b.logWait(r, now, cost)
	n[2] = b.logWait(r, now, 1)
	n[3] = 0
	if len(b.Log) > 0 {
		n[3] = b.Log[len(b.Log)-1].At + r.Integers.Unit - now
	}
}

// logWait returns the microseconds until enough of the oldest entries have expired for cost
// to fit. It returns 0 for a cost that fits, or that can never fit.
func (b *Bucket) logWait(r *store.Rule, now, cost int64) int64 {
	missing := b.X + cost - r.Integers.Capacity
	if missing <= 0 || cost > r.Integers.Capacity {
		return 0
	}
	for _, e := range b.Log {
		if missing -= e.Units; missing <= 0 {
			return e.At + r.Integers.Unit - now
		}
	}
	return 0
}

func (b *Bucket) chargeLog(r *store.Rule, now, cost int64) {
	if last := len(b.Log) - 1; last >= 0 && b.Log[last].At >= now {
		now = b.Log[last].At // the clock was set back, or has not moved
		b.Log[last].Units += cost
	} else {
		b.Log = append(b.Log, Entry{now, cost})
	}
	b.X += cost
	b.Expires = now + r.Integers.Unit
}

func (slidingLog) refund(r *store.Rule, b *Bucket, _, cost, at int64) {
	i := slices.IndexFunc(b.Log, func(e Entry) bool { return e.At == at })
	if i < 0 {
		return
	}
	b.takeFromLog(r, i, cost)
}

// takeFromLog removes up to cost units from entry i.
func (b *Bucket) takeFromLog(r *store.Rule, i int, cost int64) {
	units := min(b.Log[i].Units, cost)
	b.X -= units
	if b.Log[i].Units -= units; b.Log[i].Units == 0 {
		b.Log = slices.Delete(b.Log, i, i+1)
	}
	b.Expires = 0
	if last := len(b.Log) - 1; last >= 0 {
		b.Expires = b.Log[last].At + r.Integers.Unit
	}
}
