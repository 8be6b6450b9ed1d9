package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// Declaration is a limit as a process has declared it.
type Declaration struct {
	Name          string
	Unit          store.PeriodUnit
	Day           int
	Zone          string
	January, July int   // seconds east of Greenwich
	Period        int64 // store.Integers.Unit
	Quota, Soft   int64
	Keys          string    // store.Declaration.Keys; "" if a process of an earlier version has declared it
	PerTenant     bool      // tenants have numbers of their own
	At            time.Time // by the ledger's clock
}

// DeclarationOf returns what the ledger keeps of a rule.
func DeclarationOf(r *store.Rule) Declaration {
	d := Declaration{
		Name: r.Name, Unit: r.Calendar.Unit, Day: r.Calendar.Day, Zone: r.Calendar.Location.String(),
		Period: r.Integers.Unit, Quota: r.Quota, Soft: r.Soft,
	}
	d.January, d.July = offsets(r.Calendar.Location)
	return d
}

// offsets returns by how much clocks in a time zone are ahead of Greenwich in winter and summer.
func offsets(zone *time.Location) (january, july int) {
	_, january = time.Date(2020, time.January, 15, 0, 0, 0, 0, time.UTC).In(zone).Zone()
	_, july = time.Date(2020, time.July, 15, 0, 0, 0, 0, time.UTC).In(zone).Zone()
	return january, july
}

// Rule returns the rule that was declared. It fails if this machine can't tell when its periods
// begin.
func (d *Declaration) Rule() (store.Rule, error) {
	var r store.Rule
	zone, err := d.location()
	if err == nil {
		r, err = store.NewRule(d.Name, store.Numbers{
			Algorithm: store.Calendar, Quota: d.Quota, Soft: d.Soft, Calendar: store.Period{Unit: d.Unit, Day: d.Day, Location: zone},
		})
	}
	if err == nil && r.Integers.Unit != d.Period {
		err = fmt.Errorf("the time zone %q is another one on this machine", d.Zone)
	}
	if err != nil {
		return store.Rule{}, &store.ConfigError{Path: fmt.Sprintf("quota: limit %q", d.Name), Err: err}
	}
	return r, nil
}

// location returns the time zone of a declaration.
func (d *Declaration) location() (*time.Location, error) {
	zone, err := time.LoadLocation(d.Zone) // "Local" is that of this machine
	if err == nil {
		if january, july := offsets(zone); january == d.January && july == d.July {
			return zone, nil
		}
	}
	switch {
	case d.Zone == "Local":
		return nil, errors.New("its periods are in the local time of the machines that it runs on, which is another here: set TZ")
	case d.January == d.July: // made by time.FixedZone
		return time.FixedZone(d.Zone, d.January), nil
	case err != nil:
		return nil, fmt.Errorf("this machine does not know the time zone of its periods, %q", d.Zone)
	}
	return nil, fmt.Errorf("the time zone of its periods, %q, is another one on this machine", d.Zone)
}
