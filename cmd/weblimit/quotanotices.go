package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/quota"
)

// errEnough ends a listing.
var errEnough = errors.New("enough")

func (a *app) noticesCommand(d *database) *cobra.Command {
	var q quota.DeliveryQuery
	var dead, waiting bool
	var most int
	c := &cobra.Command{
		Use:   "notices",
		Short: "Show notices on their way, and those that are given up",
		Long: `notices shows, the latest first, which notices were delivered to which channel, which
are tried again and when, and which are dead: given up after quota.Channel.Attempts,
or refused by the receiver for good. ERROR is that of the last attempt.

With --dead it ends with 3 if there are any, so that scripts can branch.`,
		Example: `  weblimit quota notices --dead
  weblimit quota notices --tenant tenant:acme
  weblimit quota notices --waiting --channel billing --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := validRows(most); err != nil {
				return err
			}
			switch {
			case dead && waiting:
				return usagef("--dead and --waiting exclude each other")
			case dead:
				q.State = quota.Dead
			case waiting:
				q.State = quota.Waiting
			}
			var err error
			if q.Tenant != "" {
				if q.Tenant, err = a.keyArgument(q.Tenant); err != nil {
					return err
				}
			}
			l, err := a.open(c.Context(), d, use{})
			if err != nil {
				return err
			}
			defer l.close()
			n, err := a.notices(c.Context(), l, q, most)
			if err == nil && dead && n > 0 {
				err = errDiffers
			}
			return err
		},
	}
	f := c.Flags()
	f.BoolVar(&dead, "dead", false, "only those that are not tried any more")
	f.BoolVar(&waiting, "waiting", false, "only those that are to be tried, maybe again")
	f.StringVar(&q.Channel, "channel", "", "only those to this channel, quota.Channel.Name")
	f.StringVar(&q.Limit, "limit", "", "only of this limit")
	f.StringVar(&q.Tenant, "tenant", "", "only of this tenant; - reads it from standard input")
	rowsFlag(c, &most)
	return c
}

// noticeJSON is a row of quota notices.
type noticeJSON struct {
	Channel   string              `json:"channel"`
	ID        string              `json:"id"`
	Limit     string              `json:"limit"`
	Tenant    string              `json:"tenant"`
	Start     time.Time           `json:"start"`
	End       time.Time           `json:"end"`
	Level     int                 `json:"level"`
	Used      int64               `json:"used"`
	Included  int64               `json:"included"`
	Hard      int64               `json:"hard"`
	At        time.Time           `json:"at"`
	State     quota.DeliveryState `json:"state"`
	Attempts  int                 `json:"attempts"`
	Due       *time.Time          `json:"due,omitempty"`
	Delivered *time.Time          `json:"delivered,omitempty"`
	Error     string              `json:"error,omitempty"`
}

func noticeOf(d *quota.Delivery) noticeJSON {
	n := &d.Notice
	row := noticeJSON{
		Channel: d.Channel, ID: n.ID, Limit: n.Limit, Tenant: n.Tenant, Start: n.Start, End: n.End, Level: n.Level, Used: n.Used,
		Included: n.Included, Hard: n.Hard, At: n.At, State: d.State, Attempts: d.Attempts, Error: d.Err,
	}
	if d.State == quota.Waiting {
		row.Due = &d.Due
	}
	if !d.Delivered.IsZero() {
		row.Delivered = &d.Delivered
	}
	return row
}

// notices prints deliveries, and returns how many.
func (a *app) notices(ctx context.Context, l *ledger, q quota.DeliveryQuery, most int) (int, error) {
	ctx, waiting, done := a.patient(ctx)
	defer done()
	rows, more := []noticeJSON{}, false
	err := l.Deliveries(ctx, q, func(d quota.Delivery) error {
		waiting.heard()
		if more = len(rows) == most; more {
			return errEnough
		}
		rows = append(rows, noticeOf(&d))
		return nil
	})
	if err == nil && len(rows) == 0 {
		err = knownName(l.Book, q.Limit, q.Tenant)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return 0, explained(ctx, err)
	}
	if a.json {
		text, err := json.Marshal(map[string]any{"at": time.Now().UTC(), "notices": rows, "more": more})
		if err != nil {
			return 0, err
		}
		return len(rows), a.writeJSON(text)
	}
	if len(rows) == 0 {
		a.text.Line(show.Plain, "There are none.")
		return 0, nil
	}
	a.writeNotices(periodsOf(l.Book), rows)
	if more {
		a.text.Line(show.Dim, "… and more: see --max")
	}
	if q.State == quota.Dead {
		a.text.Blank()
		a.text.Line(show.Plain, "To have them delivered again, once the receiver is right: weblimit quota redeliver "+rows[0].Channel)
	}
	return len(rows), nil
}

// writeNotices writes notices as a table.
func (a *app) writeNotices(p periods, rows []noticeJSON) {
	t := show.Table{Columns: []show.Column{
		{Title: "CHANNEL", Most: 64, Least: 8},
		{Title: "LIMIT", Most: 64, Least: 8},
		{Title: "TENANT", Most: 80, Least: 12},
		{Title: "PERIOD"},
		{Title: "LEVEL", Right: true},
		{Title: "USED", Right: true},
		{Title: "STATE"},
		{Title: "TRIES", Right: true},
		{Title: "ERROR", Most: 120, Least: 20},
	}}
	for i := range rows {
		r := &rows[i]
		state, style := string(r.State), show.Plain
		switch {
		case r.State == quota.Dead:
			style = show.Red
		case r.State == quota.Waiting && r.Attempts > 0:
			state, style = "again at "+clock(*r.Due), show.Yellow
		}
		t.Add(show.Cell{Text: r.Channel}, show.Cell{Text: r.Limit}, clientCell(r.Tenant, ""), show.Cell{Text: p.text(r.Limit, r.Start, r.End)},
			show.Cell{Text: fmt.Sprintf("%d %%", r.Level)}, show.Cell{Text: grouped(r.Used)}, show.Cell{Text: state, Style: style},
			show.Cell{Text: grouped(int64(r.Attempts))}, show.Cell{Text: r.Error})
	}
	a.text.Table(&t)
}

func (a *app) redeliverCommand(d *database) *cobra.Command {
	var tenant, limit string
	c := &cobra.Command{
		Use:   "redeliver CHANNEL",
		Short: "Have dead notices of a channel delivered again",
		Long: `redeliver makes dead notices of a channel due, with all of its attempts, for the
applications that serve the channel: all of them, or those of --tenant and --limit.
Receivers know a notice by its id, which stays the same.`,
		Example: `  weblimit quota redeliver billing
  weblimit quota redeliver billing --tenant tenant:acme`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.redeliver(c.Context(), d, args[0], limit, tenant)
		},
	}
	c.Flags().StringVar(&tenant, "tenant", "", "only of this tenant; - reads it from standard input")
	c.Flags().StringVar(&limit, "limit", "", "only of this limit")
	return c
}

// redeliver has dead notices of a channel delivered again: all of them, or those of a limit, a tenant or both.
func (a *app) redeliver(ctx context.Context, d *database, channel, limit, tenant string) (err error) {
	if !isLimitName(channel) {
		return usagef("a channel's name is 1 to 64 letters, digits and . _ -, got %q", channel)
	}
	if tenant != "" {
		if tenant, err = a.keyArgument(tenant); err != nil {
			return err
		}
	}
	l, err := a.open(ctx, d, use{writes: true})
	if err != nil {
		return err
	}
	defer l.close()
	ctx, waiting, done := a.patient(ctx)
	defer done()
	var chosen []quota.Notice
	if tenant != "" || limit != "" {
		q := quota.DeliveryQuery{Channel: channel, State: quota.Dead, Limit: limit, Tenant: tenant}
		if err := l.Deliveries(ctx, q, func(d quota.Delivery) error {
			waiting.heard()
			chosen = append(chosen, d.Notice)
			return nil
		}); err != nil {
			return explained(ctx, err)
		}
	}
	if len(chosen) == 0 && (tenant != "" || limit != "") {
		if err := knownName(l.Book, limit, tenant); err != nil {
			return err
		}
	}
	n := int64(0)
	if len(chosen) > 0 || tenant == "" && limit == "" {
		if n, err = l.Redeliver(ctx, channel, chosen...); err != nil {
			return explained(ctx, err)
		}
	}
	switch {
	case bool(a.json):
		return a.writeJSON(fmt.Appendf(nil, `{"channel":%q,"notices":%d}`, channel, n))
	case n == 0:
		a.text.Line(show.Plain, "No such notice to "+channel+" is dead.")
	default:
		a.text.Line(show.Plain, plural(n, "notice")+" to "+channel+" will be delivered again.")
	}
	return nil
}

func (a *app) adjustCommand(d *database) *cobra.Command {
	var adjustment quota.Adjustment
	var at string
	c := &cobra.Command{
		Use:   "adjust TENANT",
		Short: "Give a tenant units more, or fewer, in one period",
		Long: `adjust changes what a tenant may use in one period, the present one or that of --at. It is
what to do instead of a reset: what was used stays used, and the statement has the
adjustment with its reason. Applications have it within a second, if they enforce the
limit by PerTenant: the command says so if not.

An operation id is adjusted once: to repeat the command after an error, give it the
same --operation.` + aboutTenants,
		Example: `  weblimit quota adjust tenant:acme --limit plan --units 500 --reason "outage of 3 May"
  weblimit quota adjust tenant:acme --limit plan --units -20 --reason "counted by mistake" --operation ticket-4711`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.adjust(c.Context(), d, adjustment, args[0], at)
		},
	}
	f := c.Flags()
	f.StringVar(&adjustment.Limit, "limit", "", "of this limit (required)")
	f.Int64Var(&adjustment.Units, "units", 0, "how many units more, or fewer if negative (required)")
	f.StringVar(&adjustment.Reason, "reason", "", "why, for the statement (required)")
	f.StringVar(&adjustment.Operation, "operation", "", "id under which it is made once; a new one if not set")
	f.StringVar(&at, "at", "", "in the period that this date, 2026-10-31, or time is in; now if not set")
	return c
}

// adjust makes an adjustment, of a tenant as it is written on the command line, in the period that at is in.
func (a *app) adjust(ctx context.Context, d *database, adjustment quota.Adjustment, tenant, at string) (err error) {
	switch {
	case adjustment.Limit == "":
		return usagef("say of which limit: --limit plan")
	case adjustment.Units == 0:
		return usagef("say how many units: --units 500, or --units -20 for fewer")
	case adjustment.Reason == "":
		return usagef("say why, for the statement: --reason \"outage of 3 May\"")
	}
	if adjustment.Tenant, err = a.keyArgument(tenant); err != nil {
		return err
	}
	if adjustment.Operation == "" {
		adjustment.Operation = "weblimit-" + rand.Text()
	}
	l, err := a.open(ctx, d, use{writes: true})
	if err != nil {
		return err
	}
	defer l.close()
	if adjustment.At, err = parseTime("--at", at, zoneOf(l.Book, adjustment.Limit)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout.Duration)
	defer cancel()
	applied, err := l.Adjust(ctx, adjustment)
	if err != nil {
		return fmt.Errorf("%w (operation %s)", err, adjustment.Operation)
	}
	if a.json {
		return a.writeJSON(fmt.Appendf(nil, `{"applied":%t,"operation":%q}`, applied, adjustment.Operation))
	}
	if !applied {
		a.text.Line(show.Plain, "Operation "+adjustment.Operation+" was made before: nothing changed.")
		return nil
	}
	a.text.Line(show.Plain, fmt.Sprintf("Adjusted by %+d: ", adjustment.Units), show.Key(adjustment.Tenant), " under "+adjustment.Limit+", operation "+adjustment.Operation+".")
	for _, limit := range l.Limits() {
		if limit.Name == adjustment.Limit && !limit.PerTenant {
			a.text.Line(show.Yellow, "Decisions stay as they are: the application enforces the same numbers for all tenants of this limit, not those of PerTenant. Only the statement has the adjustment.")
		}
	}
	return nil
}
