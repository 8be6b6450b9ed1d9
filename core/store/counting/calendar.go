package counting

import "github.com/weblimit/weblimit/core/store"

// calendarWindow is a fixed window that begins and ends with a day or month.
type calendarWindow struct{ fixedWindow }

func (calendarWindow) roll(r *store.Rule, b *Bucket, now, _ int64) {
	if b.X == 0 {
		_, b.Expires, _ = r.Period(now)
	}
}

// bringBack leaves the window after the present one as it is: the clock may have been set back over
// its beginning, which must grant no second quota. A later one becomes the present window.
func (calendarWindow) bringBack(r *store.Rule, b *Bucket, now int64) bool {
	_, end, next := r.Period(now)
	if b.Expires <= next {
		return false
	}
	b.Expires = end
	return true
}

func (calendarWindow) refund(r *store.Rule, b *Bucket, _, cost, at int64) {
	if r.PeriodEnd(at) == b.Expires {
		b.X -= min(b.X, cost)
	}
}
