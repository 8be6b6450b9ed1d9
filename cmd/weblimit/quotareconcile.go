package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/quota"
)

// reconciling is a call of quota reconcile.
type reconciling struct {
	repair bool
	settle time.Duration
	max    int
}

func (a *app) reconcileCommand(d *database) *cobra.Command {
	var r reconciling
	c := &cobra.Command{
		Use:   "reconcile",
		Short: "Compare Redis with PostgreSQL, and say what differs and why",
		Long: `reconcile compares, for each account of a present period that PostgreSQL has, the units
used in Redis with those in PostgreSQL. Why they differ:

  not flushed    Redis has charged what is not in PostgreSQL. An application ended before
                 it could write it, or can't. --repair writes it.
  forked         Redis has lost what is in PostgreSQL and was charged since: keys were
                 written back, or a replica took over that could not show it. --repair
                 has the account go on with the larger use of both.
  ahead          units were given back, which came late to PostgreSQL, and Redis
                 still has them. --repair tells Redis.
  behind         PostgreSQL got units late that Redis does not know, and can grant
                 again. --repair tells Redis.
  forgotten      Redis does not have the account, or has it from before it started or
                 took over, with less. That is no harm: its next request restores it
                 from PostgreSQL.
  unknown limit  no application has declared the limit's period, or this machine
                 does not know its time zone: it was not compared.
  unknown key    the key is too long to be in PostgreSQL: it was not compared.

Applications write every quota.Config.FlushEvery, so what differs is looked at again
after --settle, and left out if it has arrived by then. Redis is asked for some
hundred accounts at a time. An account that only Redis has, since PostgreSQL was
restored from a backup, is written when it is charged again.

It ends with 3 if differences are left that don't go away by themselves: not flushed,
forked, behind, ahead or unknown limit; or if Redis has none of the accounts.`,
		Example: `  weblimit quota reconcile
  weblimit quota reconcile --repair
  weblimit quota reconcile --json | jq '.differences[] | {tenant, cause}'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if r.settle < 0 || r.settle > time.Hour {
				return usagef("--settle must be from 0s to 1h, got %v", r.settle)
			}
			if err := validRows(r.max); err != nil {
				return err
			}
			l, err := a.open(c.Context(), d, use{writes: r.repair, redis: true})
			if err != nil {
				return err
			}
			defer l.close()
			return a.reconcile(c.Context(), l, &r)
		},
	}
	c.Flags().BoolVar(&r.repair, "repair", false, "write what is missing, and have Redis go on with what PostgreSQL says")
	c.Flags().DurationVar(&r.settle, "settle", 3*time.Second, "how long what differs may be on its way: three times quota.Config.FlushEvery; 0s to look once")
	rowsFlag(c, &r.max)
	return c
}

// differenceJSON is a difference in the answer.
type differenceJSON struct {
	Limit    string      `json:"limit"`
	Tenant   string      `json:"tenant"`
	Start    time.Time   `json:"start"`
	End      time.Time   `json:"end"`
	Ledger   int64       `json:"used_in_postgresql"`
	Store    int64       `json:"used_in_redis"`
	Cause    quota.Cause `json:"cause"`
	Why      string      `json:"why"`
	Repaired bool        `json:"repaired"`
}

// reconciliationJSON is the answer of quota reconcile.
type reconciliationJSON struct {
	At          time.Time           `json:"at"`
	Accounts    int                 `json:"accounts"`
	OnTheirWay  int                 `json:"on_their_way"`
	Repaired    int                 `json:"repaired"`
	Causes      map[quota.Cause]int `json:"causes"`
	Differences []differenceJSON    `json:"differences"`
	More        bool                `json:"more"`
	Empty       bool                `json:"redis_has_none"`

	none int // accounts that Redis does not have
}

// accountID names an account.
type accountID struct {
	limit, tenant string
	start         time.Time
}

// maxFleeting bounds the accounts that are looked at twice. Further ones count at once.
const maxFleeting = 1 << 20

func (a *app) reconcile(ctx context.Context, l *ledger, r *reconciling) error {
	a.unknownLimits(l.Book)
	// What may be on its way has its position: PostgreSQL has it once it has reached that.
	var before map[accountID]int64
	if r.settle > 0 {
		before = make(map[accountID]int64)
		moving := false
		if _, err := l.Reconcile(ctx, false, func(d quota.Difference) error {
			if isFleeting(d.Cause) && len(before) < maxFleeting {
				before[idOf(&d)] = d.Position
				moving = true
			}
			return nil
		}); err != nil {
			return err
		}
		if moving {
			select {
			case <-time.After(r.settle):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	answer := reconciliationJSON{At: time.Now().UTC(), Causes: map[quota.Cause]int{}, Differences: []differenceJSON{}}
	sum, err := l.Reconcile(ctx, r.repair, func(d quota.Difference) error {
		// Once before is full, an account that is not in it may have been seen, too: then all count.
		if at, seen := before[idOf(&d)]; r.settle > 0 && d.Cause == quota.CauseNotFlushed && len(before) < maxFleeting && (!seen || d.Written >= at) {
			answer.OnTheirWay++ // charged since, or written meanwhile
			return nil
		}
		answer.add(&d, r.max)
		return nil
	})
	answer.Accounts = sum.Accounts
	uncompared := answer.Causes[quota.CauseUnknownKey] + answer.Causes[quota.CauseUnknownLimit]
	answer.Empty = answer.none > 0 && answer.none == sum.Accounts-uncompared
	if err != nil {
		return err
	}
	if a.json {
		text, err := json.Marshal(&answer)
		if err != nil {
			return err
		}
		if err := a.writeJSON(text); err != nil {
			return err
		}
	} else {
		a.writeReconciliation(l, &answer, r)
	}
	if answer.left() {
		return errDiffers
	}
	return nil
}

func idOf(d *quota.Difference) accountID { return accountID{d.Limit, d.Tenant, d.Start} }

// fleeting are the causes of differences that a flush or a repair ends.
var fleeting = []quota.Cause{quota.CauseNotFlushed, quota.CauseForked, quota.CauseBehind, quota.CauseAhead}

// isFleeting reports whether a difference may be gone in a moment.
func isFleeting(c quota.Cause) bool {
	return slices.Contains(fleeting, c)
}

func (j *reconciliationJSON) add(d *quota.Difference, most int) {
	if j.Causes[d.Cause]++; d.Cause == quota.CauseForgotten && d.Position == 0 {
		j.none++
	}
	if d.Repaired {
		j.Repaired++
	}
	if len(j.Differences) == most {
		j.More = true
		return
	}
	j.Differences = append(j.Differences, differenceJSON{
		Limit: d.Limit, Tenant: d.Tenant, Start: d.Start, End: d.End, Ledger: d.Used, Store: d.InStore,
		Cause: d.Cause, Why: d.Reason, Repaired: d.Repaired,
	})
}

// left reports whether somebody should look.
func (j *reconciliationJSON) left() bool {
	n := -j.Repaired
	for _, c := range fleeting {
		n += j.Causes[c]
	}
	return n > 0 || j.Causes[quota.CauseUnknownLimit] > 0 || j.Empty
}

func (a *app) writeReconciliation(l *ledger, j *reconciliationJSON, r *reconciling) {
	out := a.text
	if len(j.Differences) > 0 {
		p := periodsOf(l.Book)
		t := show.Table{Columns: []show.Column{
			{Title: "LIMIT", Most: 64, Least: 8},
			{Title: "TENANT", Most: 80, Least: 12},
			{Title: "PERIOD"},
			{Title: "POSTGRESQL", Right: true},
			{Title: "REDIS", Right: true},
			{Title: "CAUSE"},
			{Title: "WHY", Most: 120, Least: 20},
		}}
		for i := range j.Differences {
			d := &j.Differences[i]
			inRedis, style := grouped(d.Store), show.Yellow
			switch d.Cause {
			case quota.CauseForgotten:
				if style = show.Dim; d.Store == 0 {
					inRedis = "-"
				}
			case quota.CauseUnknownKey:
				inRedis, style = "-", show.Dim
			case quota.CauseUnknownLimit:
				inRedis = "-"
			}
			why := d.Why
			if d.Repaired {
				why, style = "repaired: "+why, show.Green
			}
			t.Add(show.Cell{Text: d.Limit}, clientCell(d.Tenant, ""), show.Cell{Text: p.text(d.Limit, d.Start, d.End)},
				show.Cell{Text: grouped(d.Ledger)}, show.Cell{Text: inRedis}, show.Cell{Text: string(d.Cause), Style: style}, show.Cell{Text: why})
		}
		out.Table(&t)
		if j.More {
			out.Line(show.Dim, "… and more: see --max")
		}
		out.Blank()
	}
	out.Line(show.Plain, "Compared "+plural(j.Accounts, "account")+" in "+l.redis+" and "+l.where+".")
	if len(j.Causes) == 0 {
		out.Line(show.Green, "They agree.")
	} else {
		out.Line(show.Plain, "Found: "+j.inWords()+".")
	}
	if j.OnTheirWay > 0 {
		out.Line(show.Dim, plural(j.OnTheirWay, "account")+" charged meanwhile, whose units are on their way.")
	}
	switch {
	case j.Empty:
		out.Line(show.Red, fmt.Sprintf("Redis has none of the accounts: it was emptied, or it is not the application's: is the prefix %q right?", a.keyPrefix()))
	case j.left() && !r.repair:
		out.Line(show.Plain, "To repair what can be: weblimit quota reconcile --repair")
	}
}

// inWords returns the causes with their numbers, the most frequent first.
func (j *reconciliationJSON) inWords() string {
	type cause struct {
		name string
		n    int
	}
	var all []cause
	for name, n := range j.Causes {
		all = append(all, cause{string(name), n})
	}
	slices.SortFunc(all, func(a, b cause) int { return cmp.Or(b.n-a.n, strings.Compare(a.name, b.name)) })
	var words []string
	for _, c := range all {
		words = append(words, grouped(int64(c.n))+" "+c.name)
	}
	if j.Repaired > 0 {
		words = append(words, grouped(int64(j.Repaired))+" of them repaired")
	}
	return strings.Join(words, ", ")
}
