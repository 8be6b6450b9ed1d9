package quota

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
	"github.com/weblimit/weblimit/quota/internal/terms"
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

// Statement returns the statement of a tenant for the period that a time is in, the present one for the
// zero time. It is written to the ledger up to Config.FlushEvery ago. The error is [ErrUnknownTenant] for a tenant that has
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
	start, end, err := l.period(at)
	if err != nil {
		return nil, err
	}
	text := ledger.TextOf([]byte(tenant))
	all, err := b.ledger.Facts(ctx, limit, []string{text})
	if err != nil {
		return nil, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	f := all[text]
	uses, err := b.used(ctx, limit, []string{text}, start, end)
	if err != nil {
		return nil, err
	}
	used := uses[text]
	if used == nil && !f.HasTenant() {
		if ever, err := b.everUsed(ctx, limit, text); err != nil {
			return nil, err
		} else if !ever {
			return nil, l.unknownTenant(tenant)
		}
	}
	return statementOf(f, l, tenant, start, end, used), nil
}

// statementBatch bounds the tenants that the ledger is asked for at a time.
const statementBatch = 500

// Statements yields the statements of all tenants of a limit for the period that a time is in, as for [Book.Statement], in
// the order of their names: of those that have used something in it, and of those that had a plan,
// override, credit or adjustment before its end. An error ends it: see [Book.Statement].
func (b *Book) Statements(ctx context.Context, limit string, at time.Time) iter.Seq2[*Statement, error] {
	return func(yield func(*Statement, error) bool) {
		l, err := b.limitWithPeriods(ctx, limit)
		var start, end int64
		if err == nil {
			start, end, err = l.period(at)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for after := (ledger.Account{Limit: limit, Key: "", Start: start, End: end}); ; {
			page, err := b.statements(ctx, l, after)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, s := range page {
				if !yield(s, nil) {
					return
				}
			}
			if len(page) < statementBatch {
				return
			}
			after.Key = ledger.TextOf([]byte(page[len(page)-1].Tenant))
		}
	}
}

// statements returns a page of statements, after an account.
func (b *Book) statements(ctx context.Context, l *knownLimit, after ledger.Account) ([]*Statement, error) {
	tenants, err := b.ledger.Tenants(ctx, after, statementBatch)
	var all map[string]*terms.Facts
	if err == nil {
		all, err = b.ledger.Facts(ctx, l.name, tenants)
	}
	if err != nil {
		return nil, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	uses, err := b.used(ctx, l.name, tenants, after.Start, after.End)
	if err != nil {
		return nil, err
	}
	page := make([]*Statement, len(tenants))
	for i, text := range tenants {
		page[i] = statementOf(all[text], l, tenantOf(text), after.Start, after.End, uses[text])
	}
	return page, nil
}

// statementOf returns the statement of a tenant that has used something, or nothing, in a period.
func statementOf(f *terms.Facts, l *knownLimit, tenant string, start, end int64, used *periodDays) *Statement {
	s := &Statement{Limit: l.name, Tenant: tenant, Start: micros.Time(start), End: micros.Time(end), Closed: f.Now >= end, Days: []StatementDay{}, Changes: changesIn(f, start, end)}
	if used != nil {
		s.Used, s.Days = used.used, used.days
	}
	a := f.Allowance(start, end, s.Used, ownTerms(&l.rule))
	s.Plan, s.Override, s.Included, s.Adjusted, s.Credits, s.Hard = a.Plan, a.Override, a.Included, a.Adjusted, a.Credits, a.Hard
	s.CreditsUsed, s.Overage = a.CreditsUsed, a.Overage
	return s
}

// Allowance returns what a tenant may use, and has used, in the period that a time is in, as for [Book.Statement]. Its
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
	start, end, err := l.period(at)
	if err != nil {
		return Allowance{}, Usage{}, err
	}
	text := ledger.TextOf([]byte(tenant))
	all, err := b.ledger.Facts(ctx, limit, []string{text})
	if err != nil {
		return Allowance{}, Usage{}, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	if err := b.wantTenant(ctx, l, tenant, all[text]); err != nil {
		return Allowance{}, Usage{}, err
	}
	u := Usage{Limit: limit, Tenant: tenant, Start: micros.Time(start), End: micros.Time(end)}
	uses, err := b.used(ctx, limit, []string{text}, start, end)
	if used := uses[text]; used != nil {
		u.Used = used.used
	}
	return Allowance(all[text].Allowance(start, end, u.Used, ownTerms(&l.rule))), u, err
}

// periodDays is what a tenant has used in a period, and by day.
type periodDays struct {
	used int64
	days []StatementDay
}

// used returns what tenants have used in a period, by their texts: those of whom anything is known.
func (b *Book) used(ctx context.Context, limit string, tenants []string, start, end int64) (map[string]*periodDays, error) {
	all := make(map[string]*periodDays)
	s := ledger.Selection{Limit: limit, Keys: tenants, From: start, To: end}
	err := b.ledger.Usage(ctx, s, func(u ledger.Use) error {
		if u.Start == start && u.End == end {
			all[u.Key] = &periodDays{u.Used, []StatementDay{}}
		}
		return nil
	})
	if err == nil && len(all) > 0 {
		var days []ledger.DayUse
		days, err = b.ledger.Days(ctx, s)
		for i := range days {
			if d := &days[i]; d.Start == start && d.End == end && all[d.Key] != nil {
				all[d.Key].days = append(all[d.Key].days, StatementDay{micros.Date(d.Date).Format(time.DateOnly), d.Used})
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	return all, nil
}

// everUsed reports whether a tenant has used a limit at any time.
func (b *Book) everUsed(ctx context.Context, limit, tenant string) (ever bool, err error) {
	err = b.ledger.Usage(ctx, ledger.Selection{Limit: limit, Key: tenant, From: micros.Of(time.Time{}), To: micros.Of(micros.FarFuture)}, func(ledger.Use) error {
		ever = true
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	return ever, nil
}

// changesIn returns the tenant's changes that belong to a period.
func changesIn(f *terms.Facts, start, end int64) []StatementChange {
	all := []StatementChange{}
	for i := range f.Changes {
		c := &f.Changes[i]
		if c.Kind == terms.ChangePlan || c.Kind == terms.ChangeAdjust && c.Start != start || c.Kind != terms.ChangeAdjust && (c.At < start || c.At >= end) {
			continue
		}
		s := StatementChange{Time: micros.Time(c.At), Kind: string(c.Kind), Plan: c.Plan, Units: c.Units, Included: c.Included, Hard: c.Hard, Reason: c.Reason}
		if c.Kind == terms.ChangeCredit || c.Kind == terms.ChangeAdjust {
			s.Operation = c.Operation
		}
		if c.Expires != 0 {
			expires := micros.Time(c.Expires)
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
