package main

import (
	"fmt"

	"github.com/weblimit/weblimit/internal/test/figure"
	"github.com/weblimit/weblimit/internal/test/prefetchsim"
)

const (
	left        = 44.0
	panelWidth  = 412.0
	panelHeight = 170.0
	highest     = 16.0 // percent
)

// panel is one diagram: percent of the quota over the number of instances.
type panel struct {
	top   float64
	title string
}

func draw(results outcomes) string {
	f := figure.New(644)
	f.Text(14, 27, figure.Title, figure.Start, "Prefetching stays within its stated bounds")
	f.Text(14, 49, figure.Soft, figure.Start, "Fraction 0.02, MaxAge 100 ms. A simulation of uneven load of")
	f.Text(14, 67, figure.Soft, figure.Start, "120 %% of the quota; an instance dies each second.")

	over := panel{114, "Granted beyond the limit, % of the quota"}
	over.frame(f)
	under := panel{366, "Free when a request was denied, % of the quota"}
	under.frame(f)
	for a := range algorithms {
		over.line(f, results[a], a, func(o prefetchsim.Outcome) (int64, int64) { return o.Over, o.OverBound })
		under.line(f, results[a], a, func(o prefetchsim.Outcome) (int64, int64) { return o.Under, o.UnderBound })
	}
	legend(f)
	return f.SVG("Prefetching stays within its stated bounds", "What a simulation measured of 1, 10, 100 and 1,000 instances, and the bounds: "+
		"granted beyond the limit, and free when a request was denied, in percent of the quota. The table beside the figure has the numbers.")
}

func (p panel) y(percent float64) float64 { return p.top + panelHeight - panelHeight*percent/highest }

func x(i int) float64 {
	return left + panelWidth*(0.08+0.84*float64(i)/float64(len(counts)-1))
}

// frame draws all but the lines.
func (p panel) frame(f *figure.Figure) {
	f.Text(14, p.top-16, figure.Strong, figure.Start, "%s", p.title)
	for at := 0.0; at <= highest; at += 4 {
		f.Line(left, p.y(at), left+panelWidth, p.y(at), figure.Grid)
		f.Text(left-8, p.y(at)+4.5, figure.Soft, figure.End, "%.0f", at)
	}
	for i, n := range counts {
		label := fmt.Sprint(n)
		if n >= 1000 {
			label = fmt.Sprintf("%d,%03d", n/1000, n%1000)
		}
		f.Text(x(i), p.top+panelHeight+20, figure.Soft, figure.Middle, "%s", label)
	}
	f.Text(left+panelWidth/2, p.top+panelHeight+40, figure.Soft, figure.Middle, "instances")
}

// line draws what was measured of an algorithm, and its bound. The algorithms stand side by
// side, so that equal values can be told apart.
func (p panel) line(f *figure.Figure, results []prefetchsim.Outcome, algorithm int, values func(prefetchsim.Outcome) (measured, bound int64)) {
	var measured, bounds []figure.Point
	for i, o := range results {
		at, bound := values(o)
		x := x(i) + 9*float64(algorithm-1)
		measured = append(measured, figure.Point{X: x, Y: p.y(100 * float64(at) / quota)})
		bounds = append(bounds, figure.Point{X: x, Y: p.y(100 * float64(bound) / quota)})
	}
	f.Polyline(measured, figure.Series[algorithm])
	f.Polyline(bounds, figure.Series[algorithm]+" "+figure.Bound)
	for _, at := range measured {
		f.Dot(at.X, at.Y, algorithm)
	}
}

func legend(f *figure.Figure) {
	at, y := 20.0, 602.0
	for a := range algorithms {
		f.Dot(at, y-4.5, a)
		f.Text(at+10, y, figure.Soft, figure.Start, "%s", algorithms[a].name)
		at += 142
	}
	f.Line(14, y+18, 40, y+18, "key")
	f.Text(48, y+22, figure.Soft, figure.Start, "measured, at most")
	f.Line(220, y+18, 246, y+18, "key "+figure.Bound)
	f.Text(254, y+22, figure.Soft, figure.Start, "bound")
}
