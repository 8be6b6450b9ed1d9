package quota

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Statement is what a tenant may use and has used under a limit in one period. As JSON it has the
// names of its fields in lower case.
type Statement struct {
	Limit  string    `json:"limit"`
	Tenant string    `json:"tenant"`
	Start  time.Time `json:"start"`
	End    time.Time `json:"end"`

	// Closed says that the period has ended, so that nothing but what was written late, or an
	// adjustment, can change the statement.
	Closed bool `json:"closed"`

	Plan     string `json:"plan,omitempty"`
	Override bool   `json:"override,omitempty"`

	Included    int64 `json:"included"`     // units of the plan or override
	Adjusted    int64 `json:"adjusted"`     // the sum of the adjustments
	Credits     int64 `json:"credits"`      // units of credits that were left at the start, or came since
	Hard        int64 `json:"hard"`         // where requests are denied
	Used        int64 `json:"used"`         // units
	CreditsUsed int64 `json:"credits_used"` // units of Used that credits have paid for
	Overage     int64 `json:"overage"`      // units of Used beyond Included, Adjusted and Credits

	Days    []StatementDay    `json:"days"`    // with use, in order
	Changes []StatementChange `json:"changes"` // of the period, in the order they were made
}

// StatementDay is the use of one day.
type StatementDay struct {
	Day  string `json:"day"` // such as 2026-11-22, in the limit's time zone
	Used int64  `json:"used"`
}

// StatementChange is a change to what the tenant may use: one that was made in the period, or an
// adjustment of it.
type StatementChange struct {
	Time      time.Time  `json:"time"`
	Kind      string     `json:"kind"` // "assignment", "override", "credit" or "adjustment"
	Operation string     `json:"operation,omitempty"`
	Plan      string     `json:"plan,omitempty"`
	Units     int64      `json:"units,omitempty"`
	Included  int64      `json:"included,omitempty"`
	Hard      int64      `json:"hard,omitempty"`
	Expires   *time.Time `json:"expires,omitempty"`
	Reason    string     `json:"reason,omitempty"`
}

// Statement returns the statement of a tenant for the period that a time is in. It is written to
// the ledger up to Config.FlushEvery ago. The error is [ErrUnknownTenant] for a tenant that has
// neither used the limit nor a plan, override, credit or adjustment, and [ErrUnknownLimit] if
// no process has the limit.
func (b *Book) Statement(ctx context.Context, limit, tenant string, at time.Time) (*Statement, error) {
	l, err := b.limitWithPeriods(ctx, limit)
	if err != nil {
		return nil, err
	}
	if err := validTenant(tenant); err != nil {
		return nil, err
	}
	start, end, _ := l.rule.Period(at.UnixMicro())
	text := textOf([]byte(tenant))
	all, err := b.ledger.facts(ctx, limit, []string{text})
	if err != nil {
		return nil, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	f := all[text]
	used, days, err := b.used(ctx, limit, text, start, end)
	if err != nil {
		return nil, err
	}
	if used == nil && !f.hasTenant() {
		if ever, err := b.everUsed(ctx, limit, text); err != nil {
			return nil, err
		} else if !ever {
			return nil, l.unknownTenant(tenant)
		}
	}
	s := &Statement{Limit: limit, Tenant: tenant, Start: timeOf(start), End: timeOf(end), Closed: f.ended(end), Days: days, Changes: f.during(start, end)}
	if used != nil {
		s.Used = *used
	}
	a := f.allowance(start, end, s.Used, ownTerms(&l.rule))
	s.Plan, s.Override, s.Included, s.Adjusted, s.Credits, s.Hard = a.Plan, a.Override, a.Included, a.Adjusted, a.Credits, a.Hard
	s.CreditsUsed, s.Overage = a.CreditsUsed, a.Overage
	return s, nil
}

// Allowance returns what a tenant may use, and has used, in the period that a time is in. Its
// errors are those of [Book.Statement], but a tenant is known whose key the limit's requests can
// have, though there were none yet.
func (b *Book) Allowance(ctx context.Context, limit, tenant string, at time.Time) (Allowance, Usage, error) {
	l, err := b.limitWithPeriods(ctx, limit)
	if err != nil {
		return Allowance{}, Usage{}, err
	}
	if err := validTenant(tenant); err != nil {
		return Allowance{}, Usage{}, err
	}
	start, end, _ := l.rule.Period(at.UnixMicro())
	text := textOf([]byte(tenant))
	all, err := b.ledger.facts(ctx, limit, []string{text})
	if err != nil {
		return Allowance{}, Usage{}, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	if err := b.wantTenant(ctx, l, tenant, all[text]); err != nil {
		return Allowance{}, Usage{}, err
	}
	u := Usage{Limit: limit, Tenant: tenant, Start: timeOf(start), End: timeOf(end)}
	used, _, err := b.used(ctx, limit, text, start, end)
	if used != nil {
		u.Used = *used
	}
	return all[text].allowance(start, end, u.Used, ownTerms(&l.rule)), u, err
}

// used returns what a tenant has used in a period, nil for nothing that is known, and by day.
func (b *Book) used(ctx context.Context, limit, tenant string, start, end int64) (used *int64, days []StatementDay, err error) {
	q := Query{Limit: limit, Tenant: tenant, From: timeOf(start), To: timeOf(end)}
	err = b.ledger.usage(ctx, q, func(u Usage) error {
		if u.Start.UnixMicro() == start && u.End.UnixMicro() == end {
			used = &u.Used
		}
		return nil
	})
	days = []StatementDay{}
	if err == nil && used != nil {
		var all []dayUse
		all, err = b.ledger.days(ctx, q)
		for _, d := range all {
			if d.start == start && d.end == end {
				days = append(days, StatementDay{dateOf(d.date).Format(time.DateOnly), d.used})
			}
		}
	}
	if err != nil {
		err = fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	return used, days, err
}

// everUsed reports whether a tenant has used a limit at any time.
func (b *Book) everUsed(ctx context.Context, limit, tenant string) (ever bool, err error) {
	err = b.ledger.usage(ctx, Query{Limit: limit, Tenant: tenant, To: farFuture}, func(Usage) error {
		ever = true
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	return ever, nil
}

// ended reports whether a period has ended.
func (f *facts) ended(end int64) bool { return f.now >= end }

// during returns the tenant's changes that belong to a period.
func (f *facts) during(start, end int64) []StatementChange {
	all := []StatementChange{}
	for i := range f.changes {
		c := &f.changes[i]
		if c.kind == changePlan || c.kind == changeAdjust && c.start != start || c.kind != changeAdjust && (c.at < start || c.at >= end) {
			continue
		}
		s := StatementChange{Time: timeOf(c.at), Kind: string(c.kind), Plan: c.plan, Units: c.units, Included: c.included, Hard: c.hard, Reason: c.reason}
		if c.kind == changeCredit || c.kind == changeAdjust {
			s.Operation = c.operation
		}
		if c.expires != 0 {
			expires := timeOf(c.expires)
			s.Expires = &expires
		}
		all = append(all, s)
	}
	return all
}

// statementColumns are the columns of [WriteCSV].
var statementColumns = []string{
	"limit", "tenant", "start", "end", "closed", "plan", "included", "adjusted", "credits", "hard", "used", "credits_used", "overage",
}

// WriteCSV writes statements as CSV: a line with the names of the columns, and one for each
// statement, without days and changes. A text that a spreadsheet would take for a formula
// begins with an apostrophe.
func WriteCSV(w io.Writer, statements ...*Statement) error {
	c := csv.NewWriter(w)
	if err := c.Write(statementColumns); err != nil {
		return err
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, s := range statements {
		if err := c.Write([]string{
			cell(s.Limit), cell(s.Tenant), s.Start.Format(time.RFC3339), s.End.Format(time.RFC3339), strconv.FormatBool(s.Closed), cell(s.Plan),
			number(s.Included), number(s.Adjusted), number(s.Credits), number(s.Hard), number(s.Used), number(s.CreditsUsed), number(s.Overage),
		}); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// cell returns a text that no spreadsheet takes for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
