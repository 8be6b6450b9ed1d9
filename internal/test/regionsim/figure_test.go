package regionsim_test

import (
	"flag"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/figure"
	"github.com/weblimit/weblimit/internal/test/regionsim"
)

var update = flag.Bool("update", false, "write docs/pictures/regions.svg")

// The figure of docs is what the simulation draws: make plots writes it.
func TestTheFigureIsWhatTheSimulationDraws(t *testing.T) {
	t.Parallel()
	documents.Drawn(t, "regions.svg", *update, drawFigure)
}

// The figure: windows of ten seconds, each of which has its load in another region.
const (
	figureRegions = 3
	figureQuota   = 1000
	figureWindow  = 10 * time.Second
	figureWindows = 12 // after the first, in which a new home leases nothing
	figureBin     = 2 * time.Second

	left        = 44.0
	panelWidth  = 412.0
	panelHeight = 150.0
)

// series are the lines of the first panel.
var series = [3]regionsim.Design{regionsim.Static, regionsim.Slow, regionsim.Leased}

// panel is one diagram: percent of the quota over time.
type panel struct {
	top, highest float64
}

func (p panel) y(percent float64) float64 { return p.top + panelHeight - panelHeight*percent/p.highest }

// figureX returns where a moment is, in windows after the first.
func figureX(at float64) float64 { return left + panelWidth*at/figureWindows }

func (p panel) frame(f *figure.Figure, step float64, title string) {
	f.Text(14, p.top-16, figure.Strong, figure.Start, "%s", title)
	for at := 0.0; at <= p.highest; at += step {
		f.Line(left, p.y(at), left+panelWidth, p.y(at), figure.Grid)
		f.Text(left-8, p.y(at)+4.5, figure.Soft, figure.End, "%.0f", at)
	}
	for at := 0; at <= figureWindows; at += 3 {
		f.Text(figureX(float64(at)), p.top+panelHeight+20, figure.Soft, figure.Middle, "%d s", at*10)
	}
}

func drawFigure(t *testing.T) string {
	outcomes := regionsim.Run(t, regionsim.Config{
		Limit: core.Per(figureQuota, figureWindow).FixedWindow(), Regions: figureRegions, RoundTrips: []time.Duration{80 * time.Millisecond},
		Jitter: 0.2, Keys: 1, Rate: 1.5 * figureQuota / figureWindow.Seconds(), Load: regionsim.Moving, Warm: figureWindow,
		Duration: (1 + figureWindows) * figureWindow, Deadline: time.Second, Bin: figureBin, Seed: 1,
		Designs: series[:],
	})
	unbroken(t, 1, outcomes)
	f := figure.New(592)
	f.Text(14, 27, figure.Title, figure.Start, "A load that moves from region to region")
	f.Text(14, 49, figure.Soft, figure.Start, "Three regions, 150 %% of a quota per 10 s. Nine of ten requests arrive")
	f.Text(14, 67, figure.Soft, figure.Start, "in one region, and after ten seconds in the next. A simulation.")

	all := panel{114, 150}
	all.frame(f, 50, "Granted in each window, % of the quota")
	f.Line(left, all.y(100), left+panelWidth, all.y(100), "key "+figure.Bound)
	for i, d := range series {
		all.line(f, i, windowsOf(outcomes[d].Admitted))
	}
	legend(f, 310, [3]string{"static shares", "counts every 5 s", "leased"})

	regional := panel{368, 40}
	regional.frame(f, 10, "Leased: granted in each region per 2 s, % of the quota")
	for region := range figureRegions {
		regional.bins(f, region, outcomes[regionsim.Leased].Admitted)
	}
	legend(f, 564, [3]string{"region 1", "region 2", "region 3"})
	return f.SVG("A load that moves from region to region", "A simulation of three regions, whose load of 150 percent of the quota moves every ten seconds: static shares grant "+
		"less than half of the quota in a window, counts that are exchanged every five seconds a tenth more than the quota, units that are leased 94 to 99 percent of it. "+
		"Below, what each region grants of the leased units: it follows the load.")
}

// windowsOf returns what was granted in each window after the first, in percent of the quota.
func windowsOf(bins [][]int64) []float64 {
	const perWindow = int(figureWindow / figureBin)
	sums := make([]float64, figureWindows)
	for i, bin := range bins {
		if w := i/perWindow - 1; w >= 0 && w < figureWindows {
			for _, n := range bin {
				sums[w] += 100 * float64(n) / figureQuota
			}
		}
	}
	return sums
}

// line draws a value for each window.
func (p panel) line(f *figure.Figure, number int, values []float64) {
	var points []figure.Point
	for w, v := range values {
		points = append(points, figure.Point{X: figureX(float64(w) + 0.5), Y: p.y(v)})
	}
	f.Polyline(points, figure.Series[number])
	for _, at := range points {
		f.Dot(at.X, at.Y, number)
	}
}

// bins draws what one region has granted in each bin.
func (p panel) bins(f *figure.Figure, region int, bins [][]int64) {
	var points []figure.Point
	for i, bin := range bins {
		at := (float64(i)+0.5)*figureBin.Seconds()/figureWindow.Seconds() - 1
		if at > 0 && at < figureWindows {
			points = append(points, figure.Point{X: figureX(at), Y: p.y(100 * float64(bin[region]) / figureQuota)})
		}
	}
	f.Polyline(points, figure.Series[region])
	for _, at := range points {
		if at.Y < p.y(p.highest/2) { // where the load is: lines have more than their colour
			f.Dot(at.X, at.Y, region)
		}
	}
}

func legend(f *figure.Figure, y float64, names [3]string) {
	for i, name := range names {
		at := 20 + 142*float64(i)
		f.Dot(at, y-4.5, i)
		f.Text(at+10, y, figure.Soft, figure.Start, "%s", name)
	}
}
