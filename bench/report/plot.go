package main

import (
	"fmt"
	"math"

	"github.com/weblimit/weblimit/internal/test/figure"
)

// The plot at the top of the page for users: how many times as fast weblimit is as each limiter on Redis. A bar to the
// right says that it is faster, one to the left that the other is.

// plotted are the loads, from one that favours weblimit to one that favours others.
var plotted = []struct {
	title string
	column
}{
	{"256 callers of one key", redisColumn("1-key", 256, "allow")},
	{"256 callers of 100,000 keys", redisColumn("100k-keys", 256, "allow")},
	{"16 callers of 100,000 keys", redisColumn("100k-keys", 16, "allow")},
}

const (
	plotEven   = 205.0 // where both are as fast as each other
	plotTwice  = 55.0  // the width of a factor of two
	plotRow    = 22.0
	plotTop    = 78.0
	plotTitle  = 26.0
	plotGap    = 16.0
	mostTimes  = 16.0 // a longer bar ends here
	leastTimes = 0.5
)

// plot draws the leads.
func (all *results) plot() string {
	height := plotTop
	for _, p := range plotted {
		height += plotTitle + plotGap + plotRow*float64(len(all.limiters(p.column)))
	}
	f := figure.New(int(height) + 12)
	f.Text(14, 27, figure.Title, figure.Start, "Checks per second on Redis, beside other limiters")
	f.Text(14, 49, figure.Soft, figure.Start, "How many times as fast weblimit was. Empty bars: it was slower.")
	x := func(times float64) float64 { return plotEven + plotTwice*math.Log2(times) }
	y := plotTop
	for _, p := range plotted {
		leads := all.limiters(p.column)
		f.Text(14, y+14, figure.Strong, figure.Start, "%s", p.title)
		y += plotTitle
		for factor := leastTimes; factor <= mostTimes; factor *= 2 {
			class := figure.Grid
			if factor == 1 {
				class = figure.Arrow
			}
			f.Line(x(factor), y, x(factor), y+plotRow*float64(len(leads)), class)
		}
		for _, l := range leads {
			from, to := x(1), x(min(max(l.times, leastTimes), mostTimes))
			f.Text(plotEven-plotTwice-8, y+15.5, figure.Soft, figure.End, "%s", l.Name)
			class := figure.Admitted
			if to < from {
				from, to, class = to, from, figure.Denied
			}
			f.Rect(from, y+4, to-from, plotRow-8, 1, class)
			f.Text(max(to, x(1))+6, y+15.5, figure.Ink, figure.Start, "%s", times(l.times)+all.mark(p.scenario(l.Name)))
			y += plotRow
		}
		y += plotGap
	}
	for factor := leastTimes; factor <= mostTimes; factor *= 2 {
		f.Text(x(factor), y+8, figure.Soft, figure.Middle, "%g×", factor)
	}
	return f.SVG("Checks per second on Redis, beside other limiters", fmt.Sprintf("Bars of how many times as fast weblimit was as each of %d limiters, under three loads. The tables of the page have the same figures.", len(all.limiters(plotted[0].column))))
}
