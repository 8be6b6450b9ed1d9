package regions

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// numbers are those of the limits, which all processes of a world have.
type numbers struct {
	Window    time.Duration // of the fixed and the sliding window
	Quota     int64         // of a window; a token bucket regains as much in that time
	DayEnds   int64         // seconds since the epoch at which a day of the calendar limit ends
	Overdraft int64         // of the limit that has one
	Floor     int64         // percent
}

// limit is one of the limits, by its place in limitNames.
type limit int

const (
	bucket limit = iota
	fixed
	sliding
	calendar
	overdrawn // a fixed window with an overdraft
)

var limitNames = []string{"bucket", "fixed", "sliding", "calendar", "overdrawn"}

func (l limit) String() string { return limitNames[l] }

// keysPerLimit is how many clients ask under each limit.
const keysPerLimit = 2

// bucketWindows is the window of the token bucket, in those of the others: it fills in that time, and a lease lasts for
// half of it.
const bucketWindows = 2

// days is the quota of a calendar day, in those of a window: a run sees two days.
const days = 6

const day = 24 * 60 * 60

// of returns a limit.
func (n *numbers) of(l limit) core.Limit {
	var c core.Limit
	switch l {
	case bucket:
		c = core.Per(n.quota(l), bucketWindows*n.Window).TokenBucket()
	case fixed:
		c = core.Per(n.quota(l), n.Window).FixedWindow()
	case sliding:
		c = core.Per(n.quota(l), n.Window).SlidingWindow()
	case calendar:
		c = core.PerCalendarDay(n.quota(l), time.FixedZone("shift", int(n.shift())))
	case overdrawn:
		c = core.Per(n.quota(l), n.Window).FixedWindow().Overdraft(n.Overdraft)
	}
	return c.By(keyfuncs.Everyone()).Named(l.String()).OnOutage(core.Deny)
}

// shift is how much later a day of the calendar limit ends than one of UTC does, in seconds east of it.
func (n *numbers) shift() int64 { return (day - n.DayEnds%day) % day }

// quota returns the quota of a limit.
func (n *numbers) quota(l limit) int64 {
	switch l {
	case bucket:
		return bucketWindows * n.Quota
	case calendar:
		return days * n.Quota
	}
	return n.Quota
}

// overdraft returns what each region may grant beyond its share in a period.
func (n *numbers) overdraft(l limit) int64 {
	if l == overdrawn {
		return n.Overdraft
	}
	return 0
}

// floor returns what a region may grant in a window without asking home; of a bucket, at once.
func (n *numbers) floor(l limit, regions int) int64 {
	return n.quota(l) * n.Floor / (100 * int64(regions))
}

// period returns how long a lease of the token bucket lasts.
func (n *numbers) period() time.Duration { return bucketWindows * n.Window / 2 }

// window returns the number of the window in which a time lies, in microseconds since the epoch. A token bucket has
// none.
func (n *numbers) window(l limit, at int64) int64 {
	if l == calendar {
		return (at/1e6 + n.shift()) / day
	}
	return at / n.Window.Microseconds()
}

// span returns when a window begins and ends, in microseconds since the epoch.
func (n *numbers) span(l limit, window int64) (begins, ends int64) {
	if l == calendar {
		begins = (window*day - n.shift()) * 1e6
		return begins, begins + day*1e6
	}
	w := n.Window.Microseconds()
	return window * w, (window + 1) * w
}

// client returns the name of a key.
func client(n int) string { return fmt.Sprint("c", n) }
