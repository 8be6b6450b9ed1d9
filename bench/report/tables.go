package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// has reports whether there is a row of this name.
func (all *results) has(name string) bool { return all.rows[name] != nil }

// value returns the median of a unit. It is 0 where there was none: of errors, say.
func (all *results) value(name, unit string) float64 {
	r := all.rows[name]
	if r == nil || len(r.values[unit]) == 0 {
		return 0
	}
	if len(r.values[unit]) < r.rounds && unit == "errors/op" {
		return median(append(slices.Clone(r.values[unit]), make([]float64, r.rounds-len(r.values[unit]))...))
	}
	return median(r.values[unit])
}

// perSecond returns how many checks were decided in a second, without those that failed.
func (all *results) perSecond(name string) float64 {
	ns := all.value(name, "ns/op")
	if ns == 0 {
		return 0
	}
	return 1e9 / ns * (1 - all.value(name, "errors/op"))
}

// faster returns how many times as fast as other the row is: the median over rounds of the
// ratios within a round, in which both ran within seconds of each other.
func (all *results) faster(name, other string) float64 {
	a, b := all.rows[name], all.rows[other]
	if a == nil || b == nil {
		return 0
	}
	ours, theirs := a.values["ns/op"], b.values["ns/op"]
	ratios := make([]float64, min(len(ours), len(theirs)))
	for i := range ratios {
		ratios[i] = theirs[i] / ours[i]
	}
	if len(ratios) == 0 {
		return 0
	}
	return median(ratios) * (1 - all.value(name, "errors/op")) / (1 - all.value(other, "errors/op"))
}

// spread returns by how much the rounds of a row differ, as a part of their median.
func (r *row) spread() float64 {
	v := r.values["ns/op"]
	return (slices.Max(v) - slices.Min(v)) / median(v)
}

// spread returns the median of that over all rows.
func (all *results) spread() float64 {
	var v []float64
	for _, r := range all.rows {
		if len(r.values["ns/op"]) > 0 { // what a script takes has no time of its own
			v = append(v, r.spread())
		}
	}
	return median(v)
}

// rounds returns how often the rows were measured, or "3 to 5" if not all alike.
func (all *results) rounds() string {
	var v []int
	for _, r := range all.rows {
		v = append(v, r.rounds)
	}
	if least, most := slices.Min(v), slices.Max(v); least != most {
		return fmt.Sprintf("%d to %d", least, most)
	}
	return fmt.Sprint(v[0])
}

// column is a scenario: the row of a peer has the name that scenario returns.
type column struct {
	title    string
	scenario func(peer string) string
}

func redisColumn(keys string, goroutines int, verdict string) column {
	return column{fmt.Sprint(goroutines), func(peer string) string {
		return fmt.Sprintf("Redis/%s/%s/%d/%s", peer, keys, goroutines, verdict)
	}}
}

// lead is how many times as fast weblimit is as a peer.
type lead struct {
	peer
	times float64
}

// leads returns weblimit's leads over the peers that a column has, in their order.
func (all *results) leads(c column) (leads []lead) {
	for _, p := range all.peers {
		if !own(p.Name) && all.has(c.scenario(p.Name)) && all.has(c.scenario(ours)) {
			leads = append(leads, lead{p, all.faster(c.scenario(ours), c.scenario(p.Name))})
		}
	}
	return leads
}

// limiters returns the leads over limiters, the smallest first.
func (all *results) limiters(c column) []lead {
	leads := slices.DeleteFunc(all.leads(c), func(l lead) bool { return l.Baseline })
	slices.SortStableFunc(leads, func(a, b lead) int { return cmp.Compare(a.times, b.times) })
	return leads
}

// goroutines are the numbers of concurrent goroutines.
var goroutines = []int{1, 16, 64, 256}

func redisColumns(keys, verdict string) []column {
	var c []column
	for _, n := range goroutines {
		c = append(c, redisColumn(keys, n, verdict))
	}
	return c
}

func memoryColumns() []column {
	var c []column
	for _, keys := range []string{"1-key", "100k-keys", "1M-keys"} {
		c = append(c, column{strings.ReplaceAll(keys, "-", " "), func(peer string) string {
			return "Memory/" + peer + "/" + keys
		}})
	}
	return c
}

// frameworks are those with middleware rows, in order.
func (all *results) frameworks() []string {
	var f []string
	for _, name := range all.names {
		if rest, ok := strings.CutPrefix(name, "Middleware/"); ok {
			framework, _, _ := strings.Cut(rest, "/")
			if !slices.Contains(f, framework) {
				f = append(f, framework)
			}
		}
	}
	return f
}

func middlewareColumn(framework string) column {
	return column{"ns", func(peer string) string { return "Middleware/" + framework + "/" + peer }}
}

// ours is the peer that all others are compared with.
const ours = "weblimit"

// table makes a Markdown table of the peers that have a row in one of the columns. cell
// writes the entry of a row.
func (all *results) table(columns []column, extra []string, cell func(name string, c column) string, more func(peer string) []string) string {
	var b strings.Builder
	b.WriteString("| |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	for _, e := range extra {
		fmt.Fprintf(&b, " %s |", e)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(columns)+len(extra)) + "\n")
	for _, p := range all.peers {
		if !slices.ContainsFunc(columns, func(c column) bool { return all.has(c.scenario(p.Name)) }) {
			continue
		}
		name := p.Name
		switch {
		case name == ours:
			name = "**" + name + "**"
		case p.Baseline:
			name = "*" + name + "*"
		}
		fmt.Fprintf(&b, "| %s |", name)
		for _, c := range columns {
			entry := "–"
			if row := c.scenario(p.Name); all.has(row) {
				entry = cell(row, c)
			}
			fmt.Fprintf(&b, " %s |", entry)
		}
		if more != nil {
			for _, entry := range more(p.Name) {
				fmt.Fprintf(&b, " %s |", entry)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// ratio writes how a row compares with ours in its column; nothing for our own.
func (all *results) ratio(name string, c column) string {
	own := c.scenario(ours)
	if name == own || !all.has(own) {
		return ""
	}
	return " (" + times(all.faster(own, name)) + ")"
}
