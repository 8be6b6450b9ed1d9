package fairsim_test

import (
	"flag"
	"testing"

	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/fairsim"
	"github.com/weblimit/weblimit/internal/test/figure"
	"github.com/weblimit/weblimit/internal/test/must"
)

var update = flag.Bool("update", false, "write docs/pictures/fair.svg")

// The figure of docs is what the simulation draws: make plots writes it.
func TestTheFigureIsWhatTheSimulationDraws(t *testing.T) {
	t.Parallel()
	documents.Drawn(t, "fair.svg", *update, drawFigure)
}

// The figure: one client that asks for three times the limit for a while, and twenty that ask for a fiftieth each.
const (
	figureLight   = 20
	figureWindows = 18
	figureWarm    = 2 // windows before the first
	figureFrom    = 5
	figureTo      = 13

	left        = 44.0
	panelWidth  = 412.0
	panelHeight = 130.0
	highest     = 105.0
)

func figureX(window float64) float64 { return left + panelWidth*window/figureWindows }

// panel is one diagram: percent of the limit over time.
type panel struct{ top float64 }

func (p panel) y(percent float64) float64 { return p.top + panelHeight - panelHeight*percent/highest }

func (p panel) frame(f *figure.Figure, title string) {
	f.Text(14, p.top-14, figure.Strong, figure.Start, "%s", title)
	for at := 0.0; at <= 100; at += 25 {
		f.Line(left, p.y(at), left+panelWidth, p.y(at), figure.Grid)
		f.Text(left-8, p.y(at)+4.5, figure.Soft, figure.End, "%.0f", at)
	}
	for at := 0; at <= figureWindows; at += 3 {
		f.Text(min(figureX(float64(at)), left+panelWidth-8), p.top+panelHeight+20, figure.Soft, figure.Middle, "%d s", at)
	}
	for _, at := range []float64{figureFrom, figureTo} {
		f.Line(figureX(at), p.top, figureX(at), p.top+panelHeight, figure.Edge)
	}
}

func (p panel) line(f *figure.Figure, number int, granted []int) {
	var points []figure.Point
	for window, n := range granted[figureWarm:] {
		points = append(points, figure.Point{X: figureX(float64(window) + 0.5), Y: p.y(min(100*float64(n)/quota, highest))})
	}
	f.Polyline(points, figure.Series[number])
	for _, at := range points {
		f.Dot(at.X, at.Y, number)
	}
}

func drawFigure(t *testing.T) string {
	f := figure.New(472)
	f.Text(14, 27, figure.Title, figure.Start, "One busy client and twenty light ones")
	f.Text(14, 49, figure.Soft, figure.Start, "One client asks for three times the limit, from second 5 to 13.")
	f.Text(14, 67, figure.Soft, figure.Start, "The light ones ask for 2 %% each, 40 %% together. A simulation.")
	for i, title := range []string{"Without shares: granted in each second, % of the limit", "With Fair"} {
		p := panel{104 + 186*float64(i)}
		p.frame(f, title)
		busy, light := figureRun(t, i == 0)
		p.line(f, 1, busy)
		p.line(f, 0, light)
	}
	for i, name := range []string{"light clients together", "busy client"} {
		at := 20 + 190*float64(i)
		f.Dot(at, 455.5, i)
		f.Text(at+10, 460, figure.Soft, figure.Start, "%s", name)
	}
	return f.SVG("One busy client and twenty light ones", "A simulation. While a client asks for three times what a limit grants, "+
		"twenty light clients are granted an eighth of the limit in place of the 40 percent that they ask for. "+
		"When clients divide the limit, the light clients are granted all that they ask for, and the busy one gets the other 60 percent.")
}

// figureRun returns what the busy client, and all light ones together, are granted in each window.
func figureRun(t *testing.T, plain bool) (busy, light []int) {
	asks := func(now int) float64 {
		if now -= figureWarm; now < figureFrom || now >= figureTo {
			return 0
		}
		return 3 * quota
	}
	c := fairsim.Config{
		Quota: quota, Burst: quota / 2, Clients: append(same(1, fairsim.Client{RateAt: asks}), same(figureLight, fairsim.Client{Rate: quota / 50})...),
		Windows: figureWarm + figureWindows, Seed: 1, Plain: plain,
	}
	busy, light = make([]int, c.Windows), make([]int, c.Windows)
	c.Each = func(window, client int, granted bool) {
		switch {
		case granted && client == 0:
			busy[window]++
		case granted:
			light[window]++
		}
	}
	must.Get(fairsim.Run(c))(t)
	return busy, light
}
