package regionsim

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// counts are what regions exchange: each tells all others from time to time what it has granted, and they charge that as
// if they had granted it themselves. While a region is cut off, what it has to say and to hear waits.
type counts struct {
	config   *Config
	began    time.Time
	every    time.Duration // between two exchanges; a message takes as long
	names    [][]byte
	next     time.Duration // the next exchange
	fresh    []map[grants]int64
	messages []message // under way, in the order of their arrival
	waiting  []message // of regions that are cut off
}

// grants names what a region has granted to a key in a window.
type grants struct {
	key    int
	window int64
}

// message is what one region tells another.
type message struct {
	from, to int
	arrives  time.Duration
	units    map[grants]int64
}

func newCounts(c *Config, began time.Time, names [][]byte, every time.Duration) *counts {
	x := &counts{config: c, began: began, every: every, names: names, next: every}
	for range c.Regions {
		x.fresh = append(x.fresh, map[grants]int64{})
	}
	return x
}

func (x *counts) grant(m *meter, r *request, at int64) {
	g := grants{key: r.key}
	if m.rule.Algorithm != store.TokenBucket {
		g.window = m.windowOf(at, r.name)
	}
	x.fresh[r.region][g]++
}

// exchange sends and receives what is due by now.
func (x *counts) exchange(d *simple) error {
	now := time.Since(x.began)
	for ; x.next <= now; x.next += x.every {
		if err := x.receive(d, x.next); err != nil {
			return err
		}
		x.send(d, x.next)
	}
	return x.receive(d, now)
}

func (x *counts) isOff(region int, at time.Duration) bool {
	up, down := x.config.isCut(region, at)
	return up || down
}

func (x *counts) send(d *simple, at time.Duration) {
	waiting := x.waiting
	x.waiting = nil
	for from := range x.fresh {
		if len(x.fresh[from]) == 0 {
			continue
		}
		if at >= x.config.Warm {
			d.meter.out.Messages += int64(len(x.fresh[from]))
		}
		for to := range x.fresh {
			if to != from {
				waiting = append(waiting, message{from: from, to: to, units: x.fresh[from]})
			}
		}
		x.fresh[from] = map[grants]int64{}
	}
	for _, m := range waiting {
		if x.isOff(m.from, at) || x.isOff(m.to, at) {
			x.waiting = append(x.waiting, m)
			continue
		}
		m.arrives = at + x.every
		x.messages = append(x.messages, m)
	}
}

// receive has the messages that arrive by a time charged.
func (x *counts) receive(d *simple, until time.Duration) error {
	for len(x.messages) > 0 && x.messages[0].arrives <= until {
		m := x.messages[0]
		x.messages = x.messages[1:]
		if x.isOff(m.to, m.arrives) {
			x.waiting = append(x.waiting, m)
			continue
		}
		for g, units := range m.units {
			name := x.names[g.key]
			if d.rule.Algorithm != store.TokenBucket && g.window != d.meter.windowOf(time.Now().UnixMicro(), name) {
				continue // that window is over
			}
			checks := []store.Check{{Key: name, Rule: d.rule, Cost: units}}
			if err := d.stores[m.to].Charge(context.Background(), checks, make([]store.Result, 1)); err != nil {
				return err
			}
		}
	}
	return nil
}
