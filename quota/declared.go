package quota

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// A process declares its limits in the ledger, so that commands, which have none, know their
// periods and numbers: see [Attach].

// declareLimits declares the limits of this process, if they have changed since it did.
func (b *Book) declareLimits(ctx context.Context) error {
	b.declaring.Lock()
	defer b.declaring.Unlock()
	var now, fresh []ledger.Declaration
	for _, name := range b.rules.Names() {
		k := b.rules.Named(name)
		if k == nil || !k.Registered() {
			continue
		}
		d := k.Declaration()
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
	if err := b.ledger.Declare(within, fresh); err != nil {
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
	for _, name := range b.rules.Names() {
		if k := b.rules.Named(name); k != nil {
			d := k.Declaration()
			l := Limit{Name: name, Rule: k.Declared(), Keys: d.Keys, PerTenant: d.PerTenant}
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
	err := b.attached[limit].Err
	if of := (*store.ConfigError)(nil); errors.As(err, &of) {
		err = of.Err // the difference says which limit
	}
	if err != nil {
		return store.Reason(err)
	}
	return "no process of this version has declared the limit"
}
