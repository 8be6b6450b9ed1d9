package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/internal/pageapi"
)

func (a *app) topCommand() *cobra.Command {
	var once bool
	var interval time.Duration
	var rows int
	c := &cobra.Command{
		Use:   "top",
		Short: "Show what each limit lets through and who is denied, live",
		Long: `top shows each limit with what it allowed, denied and, in shadow mode, would have
denied per second; then the clients that were denied most, and those nearest to a
limit. It covers all instances. Ctrl-C ends it.

Without a terminal, with --once and with --json it prints once.`,
		Example: `  weblimit top
  weblimit top --once | head -20
  weblimit top --json | jq '.denied[] | {key, limit, denied: .minute.denied}'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if interval < time.Second || interval > time.Hour {
				return usagef("--interval must be from 1s to 1h, got %v", interval)
			}
			if rows < 1 || rows > 100 {
				return usagef("--rows must be from 1 to 100, got %d", rows)
			}
			to, err := a.connect(c.Context())
			if err != nil {
				return err
			}
			defer to.close()
			if a.isTTY && !once && !bool(a.json) {
				return a.live(c.Context(), to, interval, rows)
			}
			o, raw, err := get[pageapi.Overview](c.Context(), to, "overview")
			switch {
			case err != nil:
				return err
			case bool(a.json):
				return a.writeJSON(raw)
			}
			writeOverview(a.text, to, &o, rows)
			return nil
		},
	}
	c.Flags().BoolVar(&once, "once", false, "print once and end")
	c.Flags().DurationVar(&interval, "interval", 2*time.Second, "time between two refreshes")
	c.Flags().IntVarP(&rows, "rows", "n", 10, "rows of each table")
	return c
}

// writeOverview writes what there is to see.
func writeOverview(out *show.Out, to *connection, o *pageapi.Overview, rows int) {
	head := []string{to.where, plural(len(o.Instances), "instance"), clock(o.At)}
	style := show.Bold
	if o.Store != nil && o.Store.State != "ok" {
		text := "store: " + o.Store.State
		if o.Store.Outage != nil {
			text += " since " + clock(o.Store.Outage.Since) + " (" + o.Store.Outage.Class + ")"
		}
		if o.Store.Ledger != nil {
			text += ", ledger out since " + clock(o.Store.Ledger.Since)
		}
		head, style = append(head, text), show.Red
	}
	policies := policiesOf(o)
	if len(policies) == 1 {
		head = append(head, "policy "+policies[0].versions)
	}
	out.Line(style, strings.Join(head, " · "))
	if o.Partial != "" {
		out.Line(show.Red, o.Partial)
	}
	if o.Uncounted > 0 {
		out.Line(show.Yellow, fmt.Sprintf("%s decisions are not counted: the application has more limits than top.Config.Limits", grouped(o.Uncounted)))
	}
	writeInstances(out, o)
	writePolicies(out, policies)
	writeRegions(out, o.Regions)
	out.Blank()
	writeRates(out, o, rows)
	writeLeased(out, o.Regions, rows)
	writeClients(out, "Most denied", o, o.Denied, rows)
	writeClients(out, "Would have been denied", o, o.WouldDeny, rows)
	writeNearest(out, o, rows)
}

// maxTroubled is how many instances with troubles are shown.
const maxTroubled = 8

// writeInstances writes which instances are in trouble.
func writeInstances(out *show.Out, o *pageapi.Overview) {
	var lines []string
	for i := range o.Instances {
		in := &o.Instances[i]
		if in.State == "outage" {
			lines = append(lines, fmt.Sprintf("%s: store out since %s (%s)", in.Name, clock(in.Since), in.Class))
		}
		for _, b := range in.Open {
			lines = append(lines, fmt.Sprintf("%s: does not ask %s since %s (%s)", in.Name, b.Node, clock(b.Since), b.Class))
		}
	}
	for _, s := range o.Silent {
		lines = append(lines, fmt.Sprintf("%s: silent, last seen %s", s.Name, ago(s.At, o.At)))
	}
	for _, line := range lines[:min(len(lines), maxTroubled)] {
		out.Line(show.Red, line)
	}
	if more := len(lines) - maxTroubled; more > 0 {
		out.Line(show.Red, fmt.Sprintf("… and %s more", grouped(int64(more))))
	}
}

// decides are instances that decide by the same versions of policies.
type decides struct {
	versions  string
	instances []string
}

// policiesOf returns by which versions of policies instances decide: several while a new version reaches
// one after the other.
func policiesOf(o *pageapi.Overview) (all []decides) {
	for i := range o.Instances {
		in := &o.Instances[i]
		if len(in.Versions) == 0 {
			continue // it has decided nothing yet, or by code alone
		}
		versions := strings.Join(in.Versions, ", ")
		at := slices.IndexFunc(all, func(d decides) bool { return d.versions == versions })
		if at < 0 {
			at = len(all)
			all = append(all, decides{versions: versions})
		}
		all[at].instances = append(all[at].instances, in.Name)
	}
	return all
}

func writePolicies(out *show.Out, all []decides) {
	if len(all) < 2 {
		return
	}
	for _, d := range all[:min(len(all), maxTroubled)] {
		names := strings.Join(d.instances[:min(len(d.instances), maxTroubled)], ", ")
		if more := len(d.instances) - maxTroubled; more > 0 {
			names += fmt.Sprintf(" and %s more", grouped(int64(more)))
		}
		out.Line(show.Yellow, "policy "+d.versions+": "+names)
	}
	if more := len(all) - maxTroubled; more > 0 {
		out.Line(show.Yellow, fmt.Sprintf("… and %s more versions", grouped(int64(more))))
	}
}

func writeRates(out *show.Out, o *pageapi.Overview, rows int) {
	t := show.Table{Columns: []show.Column{
		{Title: "LIMIT", Most: 64, Least: 12},
		{Title: "NUMBERS", Most: 40, Least: 10},
		{Title: "ALLOWED/S", Right: true},
		{Title: "DENIED/S", Right: true},
		{Title: "WOULD DENY/S", Right: true},
	}}
	for i := range o.Limits[:min(rows, len(o.Limits))] {
		l := &o.Limits[i]
		numbers := l.Numbers
		if l.Shadow {
			numbers += ", shadow"
		}
		t.Add(show.Cell{Text: l.Name}, show.Cell{Text: numbers}, show.Cell{Text: perSecond(l.PerSecond.Allowed)},
			highlight(perSecond(l.PerSecond.Denied), show.Red), highlight(perSecond(l.PerSecond.WouldDeny), show.Yellow))
	}
	if t.Rows() == 0 {
		out.Line(show.Plain, "No limit has decided anything yet.")
		return
	}
	out.Table(&t)
	if more := int64(len(o.Limits)-t.Rows()) + o.More; more > 0 {
		out.Line(show.Dim, fmt.Sprintf("… and %s more", grouped(more)))
	}
}

// highlight returns a cell that stands out unless it is 0.
func highlight(text string, style show.Style) show.Cell {
	if text == "0" {
		style = show.Dim
	}
	return show.Cell{Text: text, Style: style}
}

// keyColumn is a column with clients.
var keyColumn = show.Column{Title: "CLIENT", Most: 60, Least: 16}

func writeClients(out *show.Out, title string, o *pageapi.Overview, clients []pageapi.Client, rows int) {
	if len(clients) == 0 {
		return
	}
	out.Blank()
	out.Line(show.Bold, title)
	t := show.Table{Columns: []show.Column{
		keyColumn,
		{Title: "LIMIT", Most: 32, Least: 8},
		{Title: "1 MIN", Right: true},
		{Title: "1 HOUR", Right: true},
		{Title: "LAST", Right: true},
		{Title: "WHY", Most: 100, Least: 12},
	}}
	for i := range clients[:min(rows, len(clients))] {
		c := &clients[i]
		last, why := "", ""
		if c.Denial != nil {
			last, why = ago(c.Denial.At, o.At), c.Denial.Why
		}
		t.Add(clientCell(c.Key, c.Label), show.Cell{Text: c.Limit},
			show.Cell{Text: grouped(c.Minute.Denied + c.Minute.WouldDeny)}, show.Cell{Text: grouped(c.Hour.Denied + c.Hour.WouldDeny)},
			show.Cell{Text: last}, show.Cell{Text: why})
	}
	out.Table(&t)
}

func writeNearest(out *show.Out, o *pageapi.Overview, rows int) {
	if len(o.Near) == 0 {
		return
	}
	out.Blank()
	out.Line(show.Bold, "Nearest to a limit")
	t := show.Table{Columns: []show.Column{
		keyColumn, {Title: "LIMIT", Most: 32, Least: 8}, {Title: "USED", Right: true}, {Title: "WHEN", Right: true}, {Title: "REQUESTS/MIN", Right: true},
	}}
	for i := range o.Near[:min(rows, len(o.Near))] {
		c := &o.Near[i]
		t.Add(clientCell(c.Key, c.Label), show.Cell{Text: c.Limit}, show.Cell{Text: percent(c.Used)},
			show.Cell{Text: ago(c.UsedAt, o.At)}, show.Cell{Text: grouped(c.Minute.Requests)})
	}
	out.Table(&t)
}

// Sequences of terminals: another screen, without a cursor and without wrapping, and back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	restOfLine  = "\x1b[K"
	restOfAll   = "\x1b[J"
)

// live shows the overview until ctx ends. An answer that does not come leaves the last one there.
func (a *app) live(ctx context.Context, to *connection, interval time.Duration, rows int) error {
	o, _, err := get[pageapi.Overview](ctx, to, "overview")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(a.out, enterScreen); err != nil {
		return err
	}
	defer func() { _, _ = fmt.Fprint(a.out, leaveScreen) }()
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		if err := a.draw(to, &o, err, rows); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // the way to end it
		case <-ticks.C:
		}
		var next pageapi.Overview
		if next, _, err = get[pageapi.Overview](ctx, to, "overview"); err == nil {
			o = next
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// fewestRows is how many rows tables keep on a terminal that is too low for all.
const fewestRows = 2

// draw draws one screen, with as many rows as fit.
func (a *app) draw(to *connection, o *pageapi.Overview, failed error, rows int) error {
	columns, height := a.size()
	if height <= 0 {
		height = 1 << 10
	}
	var lines []string
	for rows = max(rows, fewestRows); rows >= fewestRows; rows-- {
		var page bytes.Buffer
		out := &show.Out{W: &page, Colour: a.text.Colour, Width: columns}
		if failed != nil {
			out.Line(show.Red, "no answer, this is what was: "+oneLine(failed))
		}
		writeOverview(out, to, o, rows)
		if lines = strings.Split(strings.TrimSuffix(page.String(), "\n"), "\n"); len(lines) < height {
			break
		}
	}
	lines = lines[:max(min(len(lines), height-1), 0)]
	var screen strings.Builder
	screen.WriteString(home)
	for _, line := range lines {
		screen.WriteString(line + restOfLine + "\r\n")
	}
	screen.WriteString(restOfAll)
	_, err := fmt.Fprint(a.out, screen.String())
	return err
}

// suggestions returns the suggestions for limits, by their names.
func suggestions(limits []pageapi.Limit) map[string]*pageapi.Suggestion {
	found := make(map[string]*pageapi.Suggestion)
	for i := range limits {
		if limits[i].Suggest != nil {
			found[limits[i].Name] = limits[i].Suggest
		}
	}
	return found
}

// withField returns a JSON object with one more field.
func withField(object json.RawMessage, name string, value any) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	fields[name] = text
	return json.Marshal(fields)
}
