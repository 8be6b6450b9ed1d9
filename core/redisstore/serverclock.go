package redisstore

import (
	"sync/atomic"
	"time"
)

// serverClock is what a process takes for the time by Redis's clock: its own clock's, until an
// answer shows that the two are far apart. The script has to be told which calendar window is
// the present one. It corrects a process that is off by up to a window, so a rough idea of the
// time is enough, and the first answer of a server whose clock was set gives it.
//
// A store has one for all nodes. If the clocks of a Cluster's nodes are days apart, some are
// told windows that are not theirs; the script then bounds how long a window can last.
type serverClock struct {
	own   func() int64 // the process's clock in tests; nil for time.Now
	ahead atomic.Int64 // microseconds; 0 while the clocks are less than clocksApart from each other
}

// clocksApart is from when on the difference of clocks counts, in microseconds. No calendar
// window is that short.
const clocksApart = int64(time.Hour / time.Microsecond)

func (c *serverClock) process() int64 {
	if c.own != nil {
		return c.own()
	}
	return time.Now().UnixMicro()
}

// now returns the time, in microseconds since the epoch.
func (c *serverClock) now() int64 { return c.process() + c.ahead.Load() }

// learn notes that it was server by Redis's clock just now. asked is what was taken for the
// time when the request was made.
func (c *serverClock) learn(server, asked int64) {
	if d := server - asked; d < clocksApart && d > -clocksApart {
		return
	}
	d := server - c.process()
	if d < clocksApart && d > -clocksApart {
		d = 0
	}
	c.ahead.Store(d)
}
