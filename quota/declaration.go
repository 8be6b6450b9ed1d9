package quota

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// declaration is a limit as a process has declared it.
type declaration struct {
	name          string
	unit          store.PeriodUnit
	day           int
	zone          string
	january, july int   // seconds east of Greenwich
	period        int64 // store.Integers.Unit
	quota, soft   int64
	keys          string    // store.Declaration.Keys; "" if a process of an earlier version has declared it
	perTenant     bool      // tenants have numbers of their own
	at            time.Time // by the ledger's clock
}

// declarationOf returns what the ledger keeps of a rule.
func declarationOf(r *store.Rule) declaration {
	d := declaration{
		name: r.Name, unit: r.Calendar.Unit, day: r.Calendar.Day, zone: r.Calendar.Location.String(),
		period: r.Integers().Unit, quota: r.Quota, soft: r.Soft,
	}
	d.january, d.july = offsets(r.Calendar.Location)
	return d
}

// offsets returns by how much clocks in a time zone are ahead of Greenwich in winter and summer.
func offsets(zone *time.Location) (january, july int) {
	_, january = time.Date(2020, time.January, 15, 0, 0, 0, 0, time.UTC).In(zone).Zone()
	_, july = time.Date(2020, time.July, 15, 0, 0, 0, 0, time.UTC).In(zone).Zone()
	return january, july
}

// rule returns the rule that was declared. It fails if this machine can't tell when its periods
// begin.
func (d *declaration) rule() (store.Rule, error) {
	zone, err := d.location()
	if err != nil {
		return store.Rule{}, err
	}
	r, err := store.NewRule(d.name, store.Numbers{
		Algorithm: store.Calendar, Quota: d.quota, Soft: d.soft, Calendar: store.Period{Unit: d.unit, Day: d.day, Location: zone},
	})
	if err == nil && r.Integers().Unit != d.period {
		err = fmt.Errorf("weblimit: quota: limit %q: the time zone %q is another one on this machine", d.name, d.zone)
	}
	return r, err
}

// location returns the time zone of a declaration.
func (d *declaration) location() (*time.Location, error) {
	zone, err := time.LoadLocation(d.zone) // "Local" is that of this machine
	if err == nil {
		if january, july := offsets(zone); january == d.january && july == d.july {
			return zone, nil
		}
	}
	switch {
	case d.zone == "Local":
		return nil, fmt.Errorf("weblimit: quota: limit %q: its periods are in the local time of the machines that it runs on, which is another here: set TZ", d.name)
	case d.january == d.july: // made by time.FixedZone
		return time.FixedZone(d.zone, d.january), nil
	case err != nil:
		return nil, fmt.Errorf("weblimit: quota: limit %q: this machine does not know the time zone of its periods, %q", d.name, d.zone)
	}
	return nil, fmt.Errorf("weblimit: quota: limit %q: the time zone of its periods, %q, is another one on this machine", d.name, d.zone)
}
