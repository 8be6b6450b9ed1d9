package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/clientkeys"
	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/quota"
)

// quotaCommand is the parent of the commands about a quota.Book.
func (a *app) quotaCommand() *cobra.Command {
	d := new(database)
	c := &cobra.Command{
		Use:   "quota",
		Short: "Read, compare and correct what a quota.Book has in PostgreSQL",
		Long: `quota is about limits that are kept in PostgreSQL, by package quota of weblimit.

It asks PostgreSQL itself:

  export WEBLIMIT_POSTGRES=postgres://ops@db.example.com/app?sslmode=verify-full
  export PGPASSFILE=~/.pgpass        or PGPASSWORD, or --postgres-password-file

Limits and their periods are those that applications have declared there. The command
is no process of the book: it flushes nothing and delivers nothing by itself. All but
reconcile --repair, redeliver and adjust open the database for reading only.`,
		Example: `  weblimit quota reconcile                   does Redis have what PostgreSQL has, and why not
  weblimit quota usage --limit plan          who has used how much
  weblimit quota statement tenant:acme       one tenant's present period
  weblimit quota notices --dead              notices that nobody tries to deliver any more`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	f := c.PersistentFlags()
	a.addFlags(f, ofPostgres)
	f.StringVar(&d.schema, "schema", "", "quota.Config.Schema of the application ($WEBLIMIT_SCHEMA, weblimit)")
	c.AddCommand(a.reconcileCommand(d), a.usageCommand(d), a.statementCommand(d), a.noticesCommand(d), a.redeliverCommand(d), a.adjustCommand(d))
	return c
}

// aboutTenants is what help says of tenants.
const aboutTenants = `

TENANT is the key as the limit counts it, such as tenant:acme. "-" reads it from
standard input.`

// errDiffers ends commands with exitDenied that have found what somebody should look at. All has been
// said already.
var errDiffers = errors.New("differences")

// zoneOf returns the time zone of a limit's periods, or of those of all limits; UTC if they differ.
func zoneOf(book *quota.Book, limit string) *time.Location {
	var zone *time.Location
	for _, l := range book.Limits() {
		switch {
		case l.Err != nil || limit != "" && l.Name != limit:
		case zone == nil:
			zone = l.Rule.Calendar.Location
		case zone.String() != l.Rule.Calendar.Location.String():
			return time.UTC
		}
	}
	if zone == nil {
		return time.UTC
	}
	return zone
}

// knownName returns an error if there is no limit of a name, or if a tenant's name is not of the form
// that any limit's keys have: then that nothing was found says nothing. Both may be empty.
func knownName(book *quota.Book, limit, tenant string) error {
	var forms []string
	found := limit == ""
	for _, l := range book.Limits() {
		if limit != "" && l.Name != limit {
			continue
		}
		found = true
		if l.Keys == "" || clientkeys.Match(l.Keys, tenant) {
			return nil
		}
		if meant := clientkeys.Meant(l.Keys, tenant); len(meant) > 0 {
			return fmt.Errorf("%w: a tenant is named as the limit counts it; did you mean %q?", quota.ErrUnknownTenant, meant[0])
		}
		forms = append(forms, clientkeys.Example(l.Keys))
	}
	switch {
	case !found:
		return unknownLimit(book, limit)
	case tenant == "" || len(forms) == 0:
		return nil
	}
	slices.Sort(forms)
	return fmt.Errorf("%w: a tenant is named as the limit counts it, such as %s", quota.ErrUnknownTenant, strings.Join(slices.Compact(forms), " or "))
}

// unknownLimit is the error of a limit that is not in the book.
func unknownLimit(book *quota.Book, limit string) error {
	var names []string
	for _, l := range book.Limits() {
		names = append(names, l.Name)
	}
	hint := spelling.Meant(limit, names)
	if hint == "" && len(names) > 0 {
		hint = ": there is " + strings.Join(names[:min(len(names), 20)], ", ")
	}
	return fmt.Errorf("no application has declared a limit %q that is kept in this book%s", limit, hint)
}

// periods writes periods in the time zones of their limits.
type periods map[string]store.Period

func periodsOf(book *quota.Book) periods {
	p := make(periods)
	for _, l := range book.Limits() {
		if l.Err == nil {
			p[l.Name] = l.Rule.Calendar
		}
	}
	return p
}

// text returns a period as its first and last day, such as "2026-11-01 to 2026-11-30".
func (p periods) text(limit string, start, end time.Time) string {
	period, known := p[limit]
	if !known {
		return moment(start) + " to " + moment(end)
	}
	first, last := start.In(period.Location).Format(time.DateOnly), end.Add(-time.Microsecond).In(period.Location).Format(time.DateOnly)
	if first == last {
		return first
	}
	return first + " to " + last
}

// unknownLimits says which limits' periods are not known here.
func (a *app) unknownLimits(book *quota.Book) {
	for _, l := range book.Limits() {
		if l.Err != nil {
			(&show.Out{W: a.err}).Line(show.Plain, "weblimit: "+oneLine(l.Err))
		}
	}
}

// patience cancels a context if nothing happens for a while.
type patience struct {
	timer *time.Timer
	d     time.Duration
}

var errSilent = errors.New("PostgreSQL does not answer in time: set --timeout")

func (a *app) patient(ctx context.Context) (context.Context, *patience, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &patience{d: 6 * a.timeout.Duration} // a sum over all tenants takes longer than a question to Redis
	p.timer = time.AfterFunc(p.d, func() { cancel(errSilent) })
	return ctx, p, func() {
		p.timer.Stop()
		cancel(context.Canceled)
	}
}

// heard says that something has happened.
func (p *patience) heard() { p.timer.Reset(p.d) }

// explained returns the cause of a context's end instead of what was made of it.
func explained(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

// rowsFlag adds the flag that bounds rows.
func rowsFlag(c *cobra.Command, most *int) {
	c.Flags().IntVar(most, "max", 1000, "how many rows to print at most, from 1 to 1000000")
}

func validRows(most int) error {
	if most < 1 || most > 1_000_000 {
		return usagef("--max must be from 1 to 1000000, got %d", most)
	}
	return nil
}
