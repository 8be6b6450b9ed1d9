package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
	"github.com/weblimit/weblimit/quota/internal/terms"
)

// Plan says how many units its tenants may use in each period of a limit.
type Plan struct {
	Limit    string // name of the limit
	Name     string // 1 to 64 letters, digits and . _ -
	Included int64  // units that are not overage, 0 to 2^50

	// Hard is where requests are denied, from Included to 2^50, and at least 1. What is between
	// is overage. Defaults to Included.
	Hard int64
}

// Assignment gives a tenant a plan.
type Assignment struct {
	Limit  string // name of the limit
	Tenant string // key as the limit counts it, such as keyfuncs.Encode("tenant", "acme")
	Plan   string // name of the plan
}

// Override gives a tenant numbers of its own instead of those of its plan.
type Override struct {
	Limit    string // name of the limit
	Tenant   string // key as the limit counts it
	Included int64  // as that of Plan

	// Hard is as that of Plan. An override in which Hard and Included are 0 ends the one before:
	// the tenant has the numbers of its plan again.
	Hard int64
}

// Credit gives a tenant units beside its plan's, once. They are used after the plan's units, and
// what is left carries over to later periods. Of several credits the first to expire is used
// first.
type Credit struct {
	// Operation identifies the credit, such as the id of a payment: 1 to 200 printable
	// characters. Credits and adjustments of one operation are made once.
	Operation string

	Limit  string // name of the limit
	Tenant string // key as the limit counts it
	Units  int64  // 1 to 2^50

	// Expires is when the credit expires. It still counts until the end of the period which then
	// is the present one. A time before the present period is an error. Defaults to never.
	Expires time.Time

	Reason string // for the statement, at most 1000 characters. Defaults to none.
}

// Adjustment changes what a tenant may use in one period, for instance after an incident.
// It changes the allowance, not what was used.
type Adjustment struct {
	Operation string // as that of Credit
	Limit     string // name of the limit
	Tenant    string // key as the limit counts it
	Units     int64  // more or, if negative, fewer: up to 2^50, and as leaves a hard limit of 1

	// At is a time in the period. Defaults to now. A repeat of the operation with the default
	// means the period of the first.
	At time.Time

	Reason string // for the statement, 1 to 1000 characters. Required.
}

var (
	// ErrReused says that an operation id was used before, for another change. Nothing was
	// written.
	ErrReused = terms.ErrReused

	// ErrUnknownLimit says that no process has declared a limit of that name that is kept in the
	// book. Processes declare the limits of their limiters within some seconds.
	ErrUnknownLimit = errors.New("weblimit: quota: this book has no limit of this name")

	// ErrUnknownPlan says that the limit has no plan of that name.
	ErrUnknownPlan = errors.New("weblimit: quota: the limit has no plan of this name")

	// ErrUnknownTenant says that the limit counts nobody under that name: it is not of the form
	// that the limit's keys have, such as "acme" where they are "tenant:acme", and the ledger has
	// nothing of it. A statement also says so of a tenant that has neither used anything nor a plan.
	ErrUnknownTenant = errors.New("weblimit: quota: nothing is known of this tenant")
)

// SetPlan defines a plan, or changes its numbers for all of its tenants from now on, with what
// they have used in their period so far. A period that has ended keeps the numbers that it
// ended with. To set what is set already does nothing.
func (b *Book) SetPlan(ctx context.Context, p Plan) error {
	c := &terms.Change{Kind: terms.ChangePlan, Limit: p.Limit, Plan: p.Name, Included: p.Included, Hard: p.Hard}
	if c.Hard == 0 {
		c.Hard = c.Included
	}
	if err := errors.Join(validChange(c), validUnits(c.Included, c.Hard), validPlan(c.Plan)); err != nil {
		return err
	}
	return b.declare(ctx, c, "", func(f *terms.Facts, _ *knownLimit) (bool, error) {
		last := f.Plan(c.Plan, micros.FarFuture.UnixMicro())
		return last != nil && last.Included == c.Included && last.Hard == c.Hard, nil
	})
}

// Assign gives a tenant a plan from now on, in the middle of a period too: what the tenant has
// used stays used. To assign what is assigned already does nothing.
func (b *Book) Assign(ctx context.Context, a Assignment) error {
	c := &terms.Change{Kind: terms.ChangeAssign, Limit: a.Limit, Tenant: ledger.TextOf([]byte(a.Tenant)), Plan: a.Plan}
	if err := errors.Join(validChange(c), validTenant(a.Tenant), validPlan(c.Plan)); err != nil {
		return err
	}
	return b.declare(ctx, c, a.Tenant, func(f *terms.Facts, l *knownLimit) (bool, error) {
		if f.Plan(c.Plan, micros.FarFuture.UnixMicro()) == nil {
			return false, fmt.Errorf("%w: %q of limit %q", ErrUnknownPlan, c.Plan, c.Limit)
		}
		if last := f.Last(terms.ChangeAssign); last != nil && last.Plan == c.Plan {
			return true, nil
		}
		return false, l.wantHardNow(f, c)
	})
}

// Override gives a tenant numbers of its own from now on, or ends that. To set what is set
// already does nothing.
func (b *Book) Override(ctx context.Context, o Override) error {
	c := &terms.Change{Kind: terms.ChangeOverride, Limit: o.Limit, Tenant: ledger.TextOf([]byte(o.Tenant)), Included: o.Included, Hard: o.Hard}
	if c.Hard == 0 {
		c.Hard = c.Included
	}
	err := errors.Join(validChange(c), validTenant(o.Tenant))
	if c.Hard != 0 || c.Included != 0 {
		err = errors.Join(err, validUnits(c.Included, c.Hard))
	}
	if err != nil {
		return err
	}
	return b.declare(ctx, c, o.Tenant, func(f *terms.Facts, l *knownLimit) (bool, error) {
		last := f.Last(terms.ChangeOverride)
		if last == nil && c.Hard == 0 || last != nil && last.Included == c.Included && last.Hard == c.Hard {
			return true, nil
		}
		return false, l.wantHardNow(f, c)
	})
}

// wantHardNow returns an error if a change would leave a tenant a hard limit below 1 in the present
// period.
func (l *knownLimit) wantHardNow(f *terms.Facts, c *terms.Change) error {
	if l.err != nil {
		return l.err
	}
	start, end, _ := l.rule.Period(f.Now)
	return f.WantHard(c, start, end, ownTerms(&l.rule))
}

// declare applies a change without an operation id, unless it is in force already. tenant is empty
// for a plan.
func (b *Book) declare(ctx context.Context, c *terms.Change, tenant string, inForce func(*terms.Facts, *knownLimit) (bool, error)) error {
	l, err := b.limit(ctx, c.Limit)
	if err != nil {
		return err
	}
	all, err := b.ledger.Facts(ctx, c.Limit, []string{c.Tenant})
	if err != nil {
		return fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	f := all[c.Tenant]
	if tenant != "" {
		if err := b.wantTenant(ctx, l, tenant, f); err != nil {
			return err
		}
	}
	if already, err := inForce(f, l); already || err != nil {
		return err
	}
	c.Operation = rand.Text()
	_, err = b.apply(ctx, c)
	return err
}

// Credit gives a tenant units, once: applied is false if the operation was done before. If it was
// another one, the error is [ErrReused] and nothing is written.
func (b *Book) Credit(ctx context.Context, credit Credit) (applied bool, err error) {
	c := &terms.Change{
		Operation: credit.Operation, Kind: terms.ChangeCredit, Limit: credit.Limit, Tenant: ledger.TextOf([]byte(credit.Tenant)),
		Units: credit.Units, Reason: credit.Reason,
	}
	err = errors.Join(validOperation(c.Operation), validChange(c), validTenant(credit.Tenant))
	if c.Units < 1 || c.Units > terms.MaxUnits {
		err = errors.Join(err, fmt.Errorf("weblimit: quota: a credit must be from 1 to %d units, got %d", int64(terms.MaxUnits), c.Units))
	}
	if !credit.Expires.IsZero() {
		if c.Expires = credit.Expires.UnixMicro(); c.Expires <= 0 || credit.Expires.After(micros.FarFuture) {
			err = errors.Join(err, fmt.Errorf("weblimit: quota: a credit can't expire at %v", credit.Expires))
		}
	}
	if err != nil {
		return false, err
	}
	l, err := b.limit(ctx, c.Limit)
	if err != nil {
		return false, err
	}
	all, err := b.ledger.Facts(ctx, c.Limit, []string{c.Tenant})
	if err != nil {
		return false, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	f := all[c.Tenant]
	if err := errors.Join(b.wantTenant(ctx, l, credit.Tenant, f), l.wantUseful(f, c)); err != nil {
		return false, err
	}
	return b.apply(ctx, c)
}

// wantUseful returns an error for a credit that expires before the present period begins, and so would count nowhere.
func (l *knownLimit) wantUseful(f *terms.Facts, c *terms.Change) error {
	if c.Expires == 0 || l.err != nil || f.Made(c.Operation) {
		return nil
	}
	if start, _, _ := l.rule.Period(f.Now); c.Expires <= start {
		return fmt.Errorf("weblimit: quota: a credit that expires at %s would count nowhere: the present period began at %s",
			micros.Time(c.Expires).Format(time.RFC3339), micros.Time(start).Format(time.RFC3339))
	}
	return nil
}

// Adjust changes what a tenant may use in one period, once: see [Book.Credit].
func (b *Book) Adjust(ctx context.Context, a Adjustment) (applied bool, err error) {
	c := &terms.Change{
		Operation: a.Operation, Kind: terms.ChangeAdjust, Limit: a.Limit, Tenant: ledger.TextOf([]byte(a.Tenant)),
		Units: a.Units, Reason: a.Reason, Present: a.At.IsZero(),
	}
	err = errors.Join(validOperation(c.Operation), validChange(c), validTenant(a.Tenant))
	if c.Units == 0 || c.Units > terms.MaxUnits || c.Units < -terms.MaxUnits {
		err = errors.Join(err, fmt.Errorf("weblimit: quota: an adjustment must be up to %d units more or fewer, and not 0, got %d", int64(terms.MaxUnits), c.Units))
	}
	if a.Reason == "" {
		err = errors.Join(err, errors.New("weblimit: quota: an adjustment must have a reason"))
	}
	if err != nil {
		return false, err
	}
	l, err := b.limitWithPeriods(ctx, c.Limit)
	if err != nil {
		return false, err
	}
	start, end, err := l.period(a.At)
	if err != nil {
		return false, err
	}
	c.Start = start
	all, err := b.ledger.Facts(ctx, c.Limit, []string{c.Tenant})
	if err != nil {
		return false, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	f := all[c.Tenant]
	if err := b.wantTenant(ctx, l, a.Tenant, f); err != nil {
		return false, err
	}
	if err := f.WantHard(c, start, end, ownTerms(&l.rule)); c.Units < 0 && err != nil {
		return false, err
	}
	return b.apply(ctx, c)
}

// apply makes a change in the ledger, and has this process know of it at once.
func (b *Book) apply(ctx context.Context, c *terms.Change) (bool, error) {
	applied, err := b.ledger.Apply(ctx, c)
	switch {
	case errors.Is(err, ErrReused):
		return false, err
	case err != nil:
		return false, fmt.Errorf("weblimit: quota: writing to the ledger: %w", err)
	}
	b.tenants.changed(c.Limit, c.Tenant)
	return applied, nil
}

// validChange checks what all changes have.
func validChange(c *terms.Change) error {
	switch {
	case !limitName.MatchString(c.Limit):
		return fmt.Errorf("weblimit: quota: a limit's name is 1 to 64 letters, digits and . _ -, got %q", c.Limit)
	case !utf8.ValidString(c.Reason) || strings.ContainsRune(c.Reason, 0) || utf8.RuneCountInString(c.Reason) > 1000:
		return errors.New("weblimit: quota: a reason must be text of at most 1000 characters")
	}
	return nil
}

func validOperation(id string) error {
	if id == "" || len(id) > 200 || !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("weblimit: quota: an operation id must be 1 to 200 printable characters, got %.200q", id)
	}
	return nil
}

func validTenant(tenant string) error {
	if tenant == "" {
		return errors.New("weblimit: quota: the tenant is empty")
	}
	return nil
}

func validPlan(name string) error {
	if !limitName.MatchString(name) {
		return fmt.Errorf("weblimit: quota: a plan's name is 1 to 64 letters, digits and . _ -, got %q", name)
	}
	return nil
}

func validUnits(included, hard int64) error {
	switch {
	case included < 0 || hard < 0:
		return fmt.Errorf("weblimit: quota: Included %d, Hard %d: neither can be negative", included, hard)
	case hard < 1:
		return errors.New("weblimit: quota: Included 0 without Hard: set Hard, where requests are denied, to at least 1; to deny all requests, block the tenant: see core.Limiter.Block")
	case hard < included:
		return fmt.Errorf("weblimit: quota: Included %d, Hard %d: requests would be denied before what is included is used; set Hard to %d or more, or leave it out", included, hard, included)
	case hard > terms.MaxUnits:
		return fmt.Errorf("weblimit: quota: Included %d, Hard %d: the most is %d", included, hard, int64(terms.MaxUnits))
	}
	return nil
}
