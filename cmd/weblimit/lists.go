package main

import (
	"errors"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/internal/pageapi"
)

func (a *app) blocksCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "blocks",
		Short: "List blocks in force",
		Long: `blocks lists who is blocked, under which limit and until when, those that end first at
the top, at most 1,000.

Redis is scanned for them, a hundred keys at a time, which holds nobody up and takes
some seconds for each million keys.`,
		Example: `  weblimit blocks
  weblimit blocks --json | jq -r '.blocks[].key'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			to, err := a.connect(c.Context())
			if err != nil {
				return err
			}
			defer to.close()
			list, raw, err := get[pageapi.Blocks](c.Context(), to, "blocks")
			if err != nil {
				return err
			}
			if a.json {
				err = a.writeJSON(raw)
			} else {
				writeBlocks(a.text, &list)
				a.writeReach(to)
			}
			if err == nil && list.Error != "" {
				err = errors.New(list.Error)
			}
			return err
		},
	}
}

func writeBlocks(out *show.Out, list *pageapi.Blocks) {
	if len(list.Blocks) == 0 {
		if list.Error == "" {
			out.Line(show.Plain, "Nobody is blocked.")
		}
		return
	}
	t := show.Table{Columns: []show.Column{
		keyColumn, {Title: "LIMIT", Most: 64, Least: 8}, {Title: "FOR ANOTHER", Right: true}, {Title: "UNTIL"}, {Title: "BECAUSE"},
	}}
	for i := range list.Blocks {
		b := &list.Blocks[i]
		because := "set by hand"
		if b.Level > 0 {
			because = plural(b.Level, "block") + " in a row"
		}
		if b.Idle != "" {
			because = "blocks nobody: " + b.Idle
		}
		t.Add(clientCell(b.Key, b.Label), show.Cell{Text: b.Limit}, show.Cell{Text: lasting(b.Until.Sub(list.At))},
			show.Cell{Text: moment(b.Until)}, show.Cell{Text: because})
	}
	out.Table(&t)
	if list.More {
		out.Line(show.Dim, "… and more")
	}
}

func (a *app) suggestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "suggest [LIMIT]",
		Short: "Suggest a number for each limit, from what clients use",
		Long: `suggest shows, for each limit, the number that 99.5 % of its clients stay within, from
what they really used. Introduce a limit in shadow mode, let it run for a typical
week, and choose its number from this. RANGE is where that number lies, if only a
sample of clients was measured. WITHIN NOW is the share of clients that stay within
the present number.`,
		Example: `  weblimit suggest
  weblimit suggest login --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path := "limits"
			if len(args) == 1 {
				path += "?limit=" + url.QueryEscape(args[0])
			}
			to, err := a.connect(c.Context())
			if err != nil {
				return err
			}
			defer to.close()
			answer, raw, err := get[pageapi.Limits](c.Context(), to, path)
			switch {
			case err != nil:
				return err
			case bool(a.json):
				return a.writeJSON(raw)
			}
			writeSuggestions(a.text, &answer)
			return nil
		},
	}
}

func writeSuggestions(out *show.Out, answer *pageapi.Limits) {
	t := show.Table{Columns: []show.Column{
		{Title: "LIMIT", Most: 64, Least: 12},
		{Title: "NOW", Most: 40, Least: 10},
		{Title: "MODE"},
		{Title: "SUGGESTION", Most: 80, Least: 30},
		{Title: "RANGE", Right: true},
		{Title: "WITHIN NOW", Right: true},
	}}
	for i := range answer.Limits {
		l := &answer.Limits[i]
		mode := "enforced"
		if l.Shadow {
			mode = "shadow"
		}
		s := l.Suggest
		if s == nil {
			none := "too few clients yet"
			if l.Penalized {
				none = "none: it blocks repeat offenders"
			}
			t.Add(show.Cell{Text: l.Name}, show.Cell{Text: l.Numbers}, show.Cell{Text: mode}, show.Cell{Text: none, Style: show.Dim}, show.Cell{}, show.Cell{})
			continue
		}
		t.Add(show.Cell{Text: l.Name}, show.Cell{Text: l.Numbers}, show.Cell{Text: mode}, show.Cell{Text: suggested(l)},
			show.Cell{Text: strings.Join([]string{grouped(s.Low), grouped(s.High)}, " to ")}, show.Cell{Text: percent(s.Within)})
	}
	if t.Rows() == 0 {
		out.Line(show.Plain, "There are no limits.")
		return
	}
	out.Table(&t)
}
