package top

import (
	"encoding/binary"
	"time"

	"github.com/weblimit/weblimit/core/store"
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
		id, zone = rule.Integers().Unit, n.Calendar.Location.String()
	}
	jitter := int64(0)
	if n.Jitter {
		jitter = 1
	}
	dst = append(dst, 1)
	for _, number := range [...]int64{
		n.Whole, n.Soft, jitter, int64(n.Wait), int64(n.Once), n.Repeats,
		n.Block.After, int64(n.Block.Within), int64(n.Block.For), n.Block.Factor, int64(n.Block.Max),
		int64(n.Calendar.Unit),
	} {
		dst = appendCount(dst, number)
	}
	if n.Calendar.Unit == 0 {
		return dst
	}
	dst = appendCount(dst, int64(n.Calendar.Day))
	dst = appendText(dst, zone)
	return binary.AppendUvarint(dst, uint64(id))
}

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
	n := store.Numbers{Algorithm: l.Algorithm, Quota: l.Quota, Burst: l.Burst, Window: l.Window}
	n.Whole, n.Soft, n.Jitter, n.Wait = d.count(), d.count(), d.count() == 1, d.duration()
	n.Once, n.Repeats = d.duration(), d.count()
	n.Block = store.Block{After: d.count(), Within: d.duration(), For: d.duration(), Factor: d.count(), Max: d.duration()}
	id := int64(0)
	if unit := d.count(); unit != 0 {
		n.Calendar.Unit = store.PeriodUnit(min(unit, 255))
		n.Calendar.Day = int(min(d.count(), 32)) // no month has so many
		n.Calendar.Location = zoneOf(d.text(maxZone))
		id = d.count()
	}
	if d.err != nil {
		return store.Numbers{}
	}
	rule, err := store.NewRule(l.Name, n)
	if err != nil || id != 0 && rule.Integers().Unit != id {
		return store.Numbers{}
	}
	return rule.Numbers
}

// zoneOf returns a time zone by its name, or nil if this machine does not know it.
func zoneOf(name string) *time.Location {
	if name == "" || name == "Local" {
		return nil // of the machine that reads it, which may be another
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	return zone
}
