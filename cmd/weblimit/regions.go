package main

import (
	"strings"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/internal/pageapi"
)

// homeOf says whether home answers a region.
func homeOf(r *pageapi.Region) (string, show.Style) {
	switch {
	case r.HomeAway != nil:
		text := "home has not answered since " + clock(r.HomeAway.Since)
		if r.HomeAway.Class != "" {
			text += " (" + r.HomeAway.Class + ")"
		}
		return text, show.Red
	case r.TripMS > 0:
		return "home answers within " + lasting(millis(r.TripMS)), show.Plain
	}
	return "home answers", show.Plain
}

// writeRegions writes whether home answers each region.
func writeRegions(out *show.Out, regions []pageapi.Region) {
	for i := range regions {
		r := &regions[i]
		home, style := homeOf(r)
		out.Line(style, "region "+r.Region+": "+home+", "+plural(r.Keys, "key")+" above the floor")
	}
}

// writeLeased writes what limits have leased from home.
func writeLeased(out *show.Out, regions []pageapi.Region, rows int) {
	for i := range regions {
		r := &regions[i]
		if len(r.Limits) == 0 {
			continue
		}
		out.Blank()
		out.Line(show.Bold, "Leased from home by "+r.Region)
		t := show.Table{Columns: []show.Column{
			{Title: "LIMIT", Most: 64, Least: 12},
			{Title: "LEASED", Right: true},
			{Title: "SPENT", Right: true},
			{Title: "MESSAGES", Right: true},
			{Title: "WAITED", Right: true},
			{Title: "DENIED EARLY", Right: true},
			{Title: "TROUBLE", Most: 100, Least: 12},
		}}
		for j := range r.Limits[:min(rows, len(r.Limits))] {
			l := &r.Limits[j]
			t.Add(show.Cell{Text: l.Limit}, show.Cell{Text: grouped(l.Leased)}, show.Cell{Text: grouped(l.Spent)}, show.Cell{Text: grouped(l.Messages)},
				show.Cell{Text: grouped(l.Waited)}, highlight(grouped(l.DeniedEarly), show.Yellow), show.Cell{Text: strings.Join(troubles(l), ", "), Style: show.Red})
		}
		out.Table(&t)
		if more := int64(len(r.Limits)-t.Rows()) + r.More; more > 0 {
			out.Line(show.Dim, "… and "+grouped(more)+" more")
		}
	}
}

// troubles says what went wrong with leases.
func troubles(l *pageapi.Leased) (all []string) {
	if l.Failed > 0 {
		all = append(all, plural(l.Failed, "lease")+" not answered")
	}
	if l.Lost > 0 {
		all = append(all, plural(l.Lost, "unit")+" lost on the way")
	}
	if l.Returned > 0 {
		all = append(all, plural(l.Returned, "unit")+" returned, as clocks differ")
	}
	return all
}

// explainRegions writes where a limit is decided, and what was leased for all of its clients.
func explainRegions(out *show.Out, regions []pageapi.Region, limit string) {
	for i := range regions {
		r := &regions[i]
		for j := range r.Limits {
			l := &r.Limits[j]
			if l.Limit != limit {
				continue
			}
			home, _ := homeOf(r)
			out.Item("region", r.Region+": "+home)
			all := append([]string{
				grouped(l.Leased) + " leased", grouped(l.Spent) + " spent", plural(l.Messages, "message"),
				plural(l.Waited, "request") + " waited", grouped(l.DeniedEarly) + " denied early",
			}, troubles(l)...)
			out.Item("leased", strings.Join(all, ", ")+", of all clients")
		}
	}
}
