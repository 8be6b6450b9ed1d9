package top

import (
	"encoding/binary"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/flat"
)

// Numbers travel as all that store.NewRule needs, so that a process without the limit, such as the
// command, can read and change what the store keeps. Durations are nanoseconds.
//
//	numbers   0 for none, else 1 | whole | soft | jitter | wait | once | repeats
//	          | penalty: after, within, for, factor, longest
//	          | calendar: unit, and unless that is 0: day | time zone | number that stands for it
//
// Algorithm, quota, burst and window are those of the limit.

// appendNumbers encodes the numbers of a limit. Those of a calendar whose time zone other processes
// can't know are left out.
func appendNumbers(dst []byte, name string, n *store.Numbers) []byte {
	if n.Quota == 0 {
		return append(dst, 0)
	}
	id, zone := int64(0), ""
	if n.Algorithm == store.Calendar {
		rule, err := store.NewRule(name, *n)
		if err != nil || n.Calendar.Location == time.Local || len(n.Calendar.Location.String()) > maxZone {
			return append(dst, 0)
		}
		id, zone = rule.Integers.Unit, n.Calendar.Location.String()
	}
	as := flat.Of(n)
	dst = append(dst, 1)
	for _, number := range as.Values[flatOwn:flatDay] {
		dst = appendCount(dst, number)
	}
	if n.Calendar.Unit == 0 {
		return dst
	}
	dst = appendCount(dst, as.Values[flatDay])
	dst = appendText(dst, zone)
	return binary.AppendUvarint(dst, uint64(id))
}

// The places in flat.Numbers of what travels here: from the one behind the limit's own four to the unit of
// the calendar, and the day.
const (
	flatOwn = 4
	flatDay = 16
)

// maxZone is how long the name of a time zone can be.
const maxZone = 64

// numbers decodes the numbers of a limit. They are zero if no rule can be made of them here, because
// this machine does not know their time zone for example.
func (d *decoder) numbers(l *Limit) store.Numbers {
	switch d.byte() {
	case 0:
		return store.Numbers{}
	case 1:
	default:
		d.fail("unknown numbers")
		return store.Numbers{}
	}
	of := store.Numbers{Algorithm: l.Algorithm, Quota: l.Quota, Burst: l.Burst, Window: l.Window}
	as, id := flat.Of(&of), int64(0)
	for i := flatOwn; i < flatDay; i++ {
		as.Values[i] = int64(d.duration()) // some are durations, and NewRule bounds the others
	}
	if as.Values[flatDay-1] != 0 { // the unit
		as.Values[flatDay] = d.count()
		as.Zone = d.text(maxZone)
		id = d.count()
	}
	if d.err != nil {
		return store.Numbers{}
	}
	n, err := as.Numbers()
	if err != nil {
		return store.Numbers{}
	}
	rule, err := store.NewRule(l.Name, n)
	if err != nil || id != 0 && rule.Integers.Unit != id {
		return store.Numbers{}
	}
	return rule.Numbers
}
