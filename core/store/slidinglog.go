//go:build moving

package store

import "slices"

// The sliding log remembers each charge until its window has passed: exact, for
// up to maxLogQuota units. Charges of one microsecond share an entry.

type logEntry struct {
	at    int64 // microseconds since the epoch, never earlier than the entry before it
	units int64
}

// live counts the units of the entries whose window has not passed.
func (f form) live(log []logEntry, now int64) (units int64) {
	for _, e := range log {
		if e.at+f.unit > now {
			units += e.units
		}
	}
	return units
}

// rollLog drops the entries whose window has passed, from the oldest on. The
// entries themselves stay as they are, for whoever else holds the slice.
func (f form) rollLog(b *bucket, now int64) {
	for len(b.log) > 0 && b.log[0].at+f.unit <= now {
		b.x -= b.log[0].units
		b.log = b.log[1:]
	}
}

func (r *Rule) readLog(b *bucket, now, cost int64, n *[4]int64) {
	n[0] = b.x
	n[1] = r.logWait(b, now, cost)
	n[2] = r.logWait(b, now, 1)
	if len(b.log) > 0 {
		n[3] = b.log[len(b.log)-1].at + r.scale.Unit - now
	}
}

// logWait returns the time until enough of the oldest entries have left for cost to fit.
func (r *Rule) logWait(b *bucket, now, cost int64) int64 {
	missing := b.x + cost - r.scale.Capacity
	if missing <= 0 || cost > r.scale.Capacity {
		return 0
	}
	for _, e := range b.log {
		if missing -= e.units; missing <= 0 {
			return e.at + r.scale.Unit - now
		}
	}
	return 0
}

func (r *Rule) chargeLog(b *bucket, now, cost int64) {
	if last := len(b.log) - 1; last >= 0 && b.log[last].at >= now {
		now = b.log[last].at // the clock was set back, or stands still
		b.log[last].units += cost
	} else {
		b.log = append(b.log, logEntry{now, cost})
	}
	b.x += cost
	b.expires = now + r.scale.Unit
}

func (r *Rule) refundLog(b *bucket, cost, at int64) {
	i := slices.IndexFunc(b.log, func(e logEntry) bool { return e.at == at })
	if i < 0 {
		return
	}
	r.takeFromLog(b, i, cost)
}

// takeFromLog takes up to cost units from an entry.
func (r *Rule) takeFromLog(b *bucket, i int, cost int64) {
	units := min(b.log[i].units, cost)
	b.x -= units
	if b.log[i].units -= units; b.log[i].units == 0 {
		b.log = slices.Delete(b.log, i, i+1)
	}
	b.expires = 0
	if last := len(b.log) - 1; last >= 0 {
		b.expires = b.log[last].at + r.scale.Unit
	}
}
