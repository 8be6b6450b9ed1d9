package quota

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// A process declares its limits in the ledger, so that commands, which have none, know their
// periods and numbers: see [Attach].

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

// declareLimits declares the limits of this process, if they have changed since it did.
func (b *Book) declareLimits(ctx context.Context) error {
	b.declaring.Lock()
	defer b.declaring.Unlock()
	var now, fresh []declaration
	for _, name := range b.rules.names() {
		k := b.rules.named(name)
		if k == nil || !k.registered() {
			continue
		}
		d := k.declaration()
		now = append(now, d)
		if !slices.Contains(b.declared, d) {
			fresh = append(fresh, d)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	if err := b.ledger.declare(within, fresh); err != nil {
		return err
	}
	b.declared = now
	return nil
}

// Limit is a limit that is kept in a book.
type Limit struct {
	Name string

	// Rule is its rule: as this process has it, or, of an attached book, as the ledger has it. It
	// has no name if Err is set.
	Rule store.Rule

	// Keys is what the limit's keys are made of, such as "tenant": see [keyfuncs.Func.Kind]. It is
	// empty if no process of this version has declared the limit.
	Keys string

	// PerTenant says that tenants have numbers of their own: see [Book.PerTenant]. Plans, credits and
	// adjustments of other limits change statements, and no decision.
	PerTenant bool

	// Declared is when a process has declared the rule. Zero but for an attached book.
	Declared time.Time

	// Err is why this process can't tell when the limit's periods begin. Nil but for an attached
	// book.
	Err error
}

// Limits returns the limits that are kept in the book, in the order of their names: those of this
// process's limiters, or, of an attached book, those that processes have declared.
func (b *Book) Limits() []Limit {
	var all []Limit
	for _, name := range b.rules.names() {
		if k := b.rules.named(name); k != nil {
			d := k.declaration()
			l := Limit{Name: name, Rule: k.declared(), Keys: d.keys, PerTenant: d.perTenant}
			if a, attached := b.attached[l.Name]; attached {
				l.Declared, l.Keys, l.PerTenant = a.Declared, a.Keys, a.PerTenant
			}
			all = append(all, l)
		}
	}
	for _, l := range b.attached {
		if l.Err != nil {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b Limit) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// whyUnknown says why an attached book can't ask the store about a limit.
func (b *Book) whyUnknown(limit string) string {
	if err := b.attached[limit].Err; err != nil {
		return strings.TrimPrefix(err.Error(), fmt.Sprintf("weblimit: quota: limit %q: ", limit))
	}
	return "no process of this version has declared the limit"
}
