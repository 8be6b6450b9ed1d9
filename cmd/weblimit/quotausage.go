package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/quota"
)

// usageQuestion are the flags of quota usage.
type usageQuestion struct {
	tenant, limit, from, to string
	days                    bool
	max                     int
}

func (a *app) usageCommand(d *database) *cobra.Command {
	var q usageQuestion
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show who has used how much, now and in the past",
		Long: `usage shows the units that tenants have used, by limit and period: of the periods of
now, or of those that overlap --from until --to. What was charged within the last
quota.Config.FlushEvery is not written yet.

Dates are in the time zone of the limit's periods if there is one --limit, or if all
limits have the same; otherwise in UTC.` + aboutTenants,
		Example: `  weblimit quota usage
  weblimit quota usage --limit plan --from 2026-10-01 --to 2026-11-01
  weblimit quota usage --tenant tenant:acme --days
  weblimit quota usage --json | jq -r '.usage[] | [.tenant, .used] | @tsv'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := validRows(q.max); err != nil {
				return err
			}
			if q.days && q.tenant == "" {
				return usagef("--days needs --tenant")
			}
			l, err := a.open(c.Context(), d, use{})
			if err != nil {
				return err
			}
			defer l.close()
			return a.usage(c.Context(), l, &q)
		},
	}
	f := c.Flags()
	f.StringVar(&q.tenant, "tenant", "", "only this tenant, as the limit counts it: tenant:acme; - reads it from standard input")
	f.StringVar(&q.limit, "limit", "", "only this limit")
	f.StringVar(&q.from, "from", "", "periods that end after this date, 2026-11-01, or time, 2026-11-01T00:00:00Z")
	f.StringVar(&q.to, "to", "", "periods that begin before this date or time")
	f.BoolVar(&q.days, "days", false, "by day")
	rowsFlag(c, &q.max)
	return c
}

// usageJSON is a row of quota usage.
type usageJSON struct {
	Limit  string    `json:"limit"`
	Tenant string    `json:"tenant"`
	Start  time.Time `json:"start"`
	End    time.Time `json:"end"`
	Day    string    `json:"day,omitempty"`
	Used   int64     `json:"used"`
}

func (a *app) usage(ctx context.Context, l *ledger, q *usageQuestion) error {
	a.unknownLimits(l.Book)
	query := quota.Query{Limit: q.limit}
	zone := zoneOf(l.Book, q.limit)
	var err error
	if q.tenant != "" {
		if query.Tenant, err = a.keyArgument(q.tenant); err != nil {
			return err
		}
	}
	if query.From, err = parseTime("--from", q.from, zone); err != nil {
		return err
	}
	if query.To, err = parseTime("--to", q.to, zone); err != nil {
		return err
	}
	ctx, waiting, done := a.patient(ctx)
	defer done()
	rows, more := []usageJSON{}, false
	if q.days {
		var days []quota.DayUsage
		days, err = l.Days(ctx, query)
		for i := range days {
			d := &days[i]
			rows = append(rows, usageJSON{d.Limit, d.Tenant, d.Start, d.End, d.Day.Format(time.DateOnly), d.Used})
		}
		more = len(rows) > q.max
		rows = rows[:min(len(rows), q.max)]
	} else {
		for u, failed := range l.Usage(ctx, query) {
			if err = failed; err != nil {
				break
			}
			waiting.heard()
			if more = len(rows) == q.max; more {
				break
			}
			rows = append(rows, usageJSON{u.Limit, u.Tenant, u.Start, u.End, "", u.Used})
		}
	}
	if err != nil {
		return explained(ctx, err)
	}
	if len(rows) == 0 {
		if err := knownName(l.Book, q.limit, query.Tenant); err != nil {
			return err
		}
	}
	if a.json {
		text, err := json.Marshal(map[string]any{"at": time.Now().UTC(), "usage": rows, "more": more})
		if err != nil {
			return err
		}
		return a.writeJSON(text)
	}
	a.writeUsage(periodsOf(l.Book), rows, more, q.days)
	return nil
}

func (a *app) writeUsage(p periods, rows []usageJSON, more, days bool) {
	if len(rows) == 0 {
		a.text.Line(show.Plain, "Nothing is used.")
		return
	}
	t := show.Table{Columns: []show.Column{{Title: "LIMIT", Most: 64, Least: 8}, {Title: "TENANT", Most: 80, Least: 12}, {Title: "PERIOD"}}}
	if days {
		t.Columns = append(t.Columns, show.Column{Title: "DAY"})
	}
	t.Columns = append(t.Columns, show.Column{Title: "USED", Right: true})
	for i := range rows {
		r := &rows[i]
		row := []show.Cell{{Text: r.Limit}, clientCell(r.Tenant, ""), {Text: p.text(r.Limit, r.Start, r.End)}}
		if days {
			row = append(row, show.Cell{Text: r.Day})
		}
		t.Add(append(row, show.Cell{Text: grouped(r.Used)})...)
	}
	a.text.Table(&t)
	if more {
		a.text.Line(show.Dim, "… and more: see --max")
	}
}

// parseTime reads a date in a time zone, or a time. It returns the zero time for nothing.
func parseTime(flag, text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, validTime(flag, t)
	}
	t, err := time.ParseInLocation(time.DateOnly, text, zone)
	if err != nil {
		return time.Time{}, usagef("%s must be a date such as 2026-11-01 or a time such as 2026-11-01T00:00:00Z, got %q", flag, text)
	}
	return t, validTime(flag, t)
}

func validTime(flag string, t time.Time) error {
	if t.Year() < 1971 || t.Year() > 9998 {
		return usagef("%s must be from 1971 to 9998", flag)
	}
	return nil
}

func (a *app) statementCommand(d *database) *cobra.Command {
	var limit, at string
	var csv, everyone bool
	c := &cobra.Command{
		Use:   "statement TENANT | --all",
		Short: "Show what tenants may use and have used in a period, as a table, CSV or JSON",
		Long: `statement shows, for each limit that the tenant is known under, the units of its plan,
its credits and adjustments, what it has used, by day, and what changed: in the present
period, or in that of --at.

With --all it shows all tenants that have used something in the period, or had a plan,
a credit or an adjustment before its end: a month's bill.

A tenant without a plan has the numbers that an application has declared last.` + aboutTenants,
		Example: `  weblimit quota statement tenant:acme
  weblimit quota statement tenant:acme --at 2026-10-31 --csv > october.csv
  weblimit quota statement --all --limit plan --at 2026-10-31 --csv > october.csv
  weblimit quota statement tenant:acme --limit plan --json | jq '.statements[].overage'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			tenant := ""
			switch {
			case csv && bool(a.json):
				return usagef("--csv and --json exclude each other")
			case everyone == (len(args) > 0):
				return usagef("say whose statement: TENANT, or --all")
			case !everyone:
				if tenant, err = a.keyArgument(args[0]); err != nil {
					return err
				}
			}
			l, err := a.open(c.Context(), d, use{})
			if err != nil {
				return err
			}
			defer l.close()
			all, err := a.statements(c.Context(), l, tenant, limit, at)
			if err != nil {
				return err
			}
			return a.writeAsAsked(periodsOf(l.Book), all, csv, everyone)
		},
	}
	c.Flags().BoolVar(&everyone, "all", false, "of all tenants")
	c.Flags().StringVar(&limit, "limit", "", "only this limit; all that the tenant is known under if not set")
	c.Flags().StringVar(&at, "at", "", "of the period that this date, 2026-10-31, or time is in; now if not set")
	c.Flags().BoolVar(&csv, "csv", false, "print CSV, without days and changes")
	return c
}

// writeAsAsked writes statements as CSV, as JSON, as one table of everyone, or one after the other.
func (a *app) writeAsAsked(p periods, all []*quota.Statement, csv, everyone bool) error {
	switch {
	case csv:
		return a.writeCSV(all)
	case bool(a.json):
		text, err := json.Marshal(map[string]any{"statements": all})
		if err != nil {
			return err
		}
		return a.writeJSON(text)
	case everyone:
		writeStatements(a.text, p, all)
		return nil
	}
	for i, s := range all {
		if i > 0 {
			a.text.Blank()
		}
		writeStatement(a.text, p, s)
	}
	return nil
}

// statements returns the statements of a tenant, or of all if tenant is empty.
func (a *app) statements(ctx context.Context, l *ledger, tenant, limit, at string) ([]*quota.Statement, error) {
	var all []*quota.Statement
	known := false
	for _, kept := range l.Limits() {
		if limit != "" && kept.Name != limit {
			continue
		}
		known = true
		if kept.Err != nil {
			if limit != "" {
				return nil, kept.Err
			}
			a.unknownLimits(l.Book)
			continue
		}
		when, err := parseTime("--at", at, kept.Rule.Calendar.Location)
		if err != nil {
			return nil, err
		}
		if when.IsZero() {
			when = time.Now()
		}
		if tenant == "" {
			if all, err = a.everyStatement(ctx, l, all, kept.Name, when); err != nil {
				return nil, err
			}
			continue
		}
		within, cancel := context.WithTimeout(ctx, a.timeout.Duration)
		s, err := l.Statement(within, kept.Name, tenant, when)
		cancel()
		switch {
		case errors.Is(err, quota.ErrUnknownTenant):
		case err != nil:
			return nil, err
		default:
			all = append(all, s)
		}
	}
	switch {
	case !known && limit != "":
		return nil, unknownLimit(l.Book, limit)
	case len(all) == 0 && tenant != "":
		if err := knownName(l.Book, limit, tenant); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %q, under any limit asked about: a tenant is named as the limit counts it, such as tenant:acme; see weblimit quota usage", quota.ErrUnknownTenant, tenant)
	}
	return all, nil
}

// everyStatement adds the statements of all tenants of a limit.
func (a *app) everyStatement(ctx context.Context, l *ledger, all []*quota.Statement, limit string, at time.Time) ([]*quota.Statement, error) {
	ctx, waiting, done := a.patient(ctx)
	defer done()
	for s, err := range l.Statements(ctx, limit, at) {
		if err != nil {
			return nil, explained(ctx, err)
		}
		waiting.heard()
		all = append(all, s)
	}
	return all, nil
}

// writeStatements writes a line for each statement.
func writeStatements(out *show.Out, p periods, all []*quota.Statement) {
	if len(all) == 0 {
		out.Line(show.Plain, "Nothing is used, and nobody has a plan.")
		return
	}
	t := show.Table{Columns: []show.Column{
		{Title: "LIMIT", Most: 64, Least: 8},
		{Title: "TENANT", Most: 80, Least: 12},
		{Title: "PERIOD"},
		{Title: "PLAN", Most: 64, Least: 8},
		{Title: "INCLUDED", Right: true},
		{Title: "USED", Right: true},
		{Title: "CREDITS", Right: true},
		{Title: "OVERAGE", Right: true},
	}}
	for _, s := range all {
		t.Add(show.Cell{Text: s.Limit}, clientCell(s.Tenant, ""), show.Cell{Text: p.text(s.Limit, s.Start, s.End)}, show.Cell{Text: s.Plan},
			show.Cell{Text: grouped(max(s.Included+s.Adjusted, 0))}, show.Cell{Text: grouped(s.Used)},
			show.Cell{Text: grouped(s.CreditsUsed)}, show.Cell{Text: grouped(s.Overage)})
	}
	out.Table(&t)
}

// writeCSV writes statements as they are, but for what a terminal would interpret.
func (a *app) writeCSV(all []*quota.Statement) error {
	var text bytes.Buffer
	if err := quota.WriteCSV(&text, all...); err != nil {
		return err
	}
	if !a.isTTY {
		_, err := a.out.Write(text.Bytes())
		return err
	}
	for line := range bytes.Lines(text.Bytes()) {
		a.text.Line(show.Plain, string(bytes.TrimRight(line, "\n")))
	}
	return nil
}

func writeStatement(out *show.Out, p periods, s *quota.Statement) {
	state := "so far"
	if s.Closed {
		state = "closed"
	}
	out.Line(show.Bold, "", show.Key(s.Tenant), fmt.Sprintf(" under %s, %s, %s", s.Limit, p.text(s.Limit, s.Start, s.End), state))
	plan := "the limit's own numbers"
	switch {
	case s.Override:
		plan = "numbers of its own"
	case s.Plan != "":
		plan = "plan " + s.Plan
	}
	out.Item("used", fmt.Sprintf("%s of %s, denied from %s", grouped(s.Used), grouped(max(s.Included+s.Adjusted, 0)+s.Credits), grouped(s.Hard)))
	out.Item("included", grouped(s.Included)+": "+plan)
	if s.Adjusted != 0 {
		out.Item("adjusted", fmt.Sprintf("%+d", s.Adjusted))
	}
	if s.Credits != 0 {
		out.Item("credits", fmt.Sprintf("%s, %s of them used", grouped(s.Credits), grouped(s.CreditsUsed)))
	}
	if s.Overage > 0 {
		out.Item("overage", grouped(s.Overage))
	}
	for _, d := range s.Days {
		out.Item(d.Day, grouped(d.Used))
	}
	for i := range s.Changes {
		out.Item("change", changeInWords(&s.Changes[i]))
	}
}

// changeInWords describes a change of a statement.
func changeInWords(c *quota.StatementChange) string {
	text := moment(c.Time) + " " + c.Kind
	switch c.Kind {
	case "assignment":
		text += " of plan " + c.Plan
		if c.Plan == "" {
			text = moment(c.Time) + " no plan any more"
		}
	case "override":
		text += fmt.Sprintf(": %s included, at most %s", grouped(c.Included), grouped(c.Hard))
		if c.Hard == 0 {
			text = moment(c.Time) + " override ended"
		}
	default:
		text += fmt.Sprintf(" of %+d", c.Units)
	}
	if c.Expires != nil {
		text += ", until " + moment(*c.Expires)
	}
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}
