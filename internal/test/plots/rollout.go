package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/figure"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
)

const (
	rolloutClients = 1000
	rolloutGuess   = 60
	rolloutShare   = 0.995

	rolloutLeft   = 40.0
	rolloutWidth  = 424.0
	rolloutTop    = 104.0
	rolloutBottom = 290.0
	rolloutBars   = 18     // from 1 to rolloutMost
	rolloutMost   = 1000.0 // requests in the busiest minute
	rolloutHigh   = 195.0  // clients in a bar
)

func rolloutX(requests float64) float64 {
	return rolloutLeft + rolloutWidth*math.Log(max(requests, 1))/math.Log(rolloutMost)
}

// measured returns what metrics/top measures of clients under a limit in shadow mode. Each sends
// all requests of its busiest minute at once.
func measured() top.Use {
	heavy := top.New(top.Config{})
	defer heavy.Close()
	limiter := core.Must(core.New(core.Config{
		Store: core.NewMemory(), Observe: heavy,
		Limits: []core.Limit{core.PerMinute(rolloutGuess).By(keyfuncs.User("user")).Named("api").Shadow()},
	}))
	random := rand.New(rand.NewPCG(1, 1))
	for client := range rolloutClients {
		requests := int64(20 * math.Exp(random.NormFloat64()*0.9))
		limiter.AllowKey(context.Background(), keyfuncs.Encode("user", fmt.Sprint(client)), max(requests, 1))
	}
	return heavy.Snapshot().Limit("api").Use
}

// drawRollout draws how many clients have which busiest minute, the number that was guessed and the
// one that is suggested.
func drawRollout() drawing {
	use := measured()
	s, ok := use.Suggest(rolloutShare)
	if !ok {
		panic("no client was measured")
	}
	within := 100 * use.Share(rolloutGuess)

	f := figure.New(392)
	f.Text(14, 27, figure.Title, figure.Start, "How many requests do clients send")
	f.Text(14, 47, figure.Title, figure.Start, "in their busiest minute?")
	for _, y := range []int{0, 50, 100, 150} {
		at := rolloutY(float64(y))
		f.Line(rolloutLeft, at, rolloutLeft+rolloutWidth, at, figure.Grid)
		f.Text(rolloutLeft-6, at+4.5, figure.Soft, figure.End, "%d", y)
	}
	drawClients(f, use.Peaks, s.Quota)
	drawNumber(f, rolloutGuess, 88, figure.Soft, fmt.Sprintf("%d: a guess", rolloutGuess))
	drawNumber(f, float64(s.Quota), 70, figure.WorstInk, fmt.Sprintf("%d: suggested", s.Quota))
	for _, tick := range []float64{1, 3, 10, 30, 100, 300, 1000} {
		f.Line(rolloutX(tick), rolloutBottom, rolloutX(tick), rolloutBottom+4, figure.Grid)
		f.Text(min(rolloutX(tick), rolloutLeft+rolloutWidth-14), rolloutBottom+18, figure.Soft, figure.Middle, "%.0f", tick)
	}
	f.Text(14, rolloutTop-14, figure.Soft, figure.Start, "clients")
	f.Text(rolloutLeft+rolloutWidth, rolloutBottom+36, figure.Soft, figure.End, "requests in the busiest minute")
	f.Text(14, 350, figure.WorstInk, figure.Start, "%.1f %% of %d clients stay within %d per minute.", 100*rolloutShare, s.Clients, s.Quota)
	f.Text(14, 372, figure.Ink, figure.Start, "%d per minute would deny %.1f %% of them.", rolloutGuess, 100-within)
	about := fmt.Sprintf("%d clients by the number of requests in their busiest minute, from 1 to %d. Most send about 20. "+
		"%.1f %% of them stay within %d per minute; %d, which was a guess, would deny %.1f %%.",
		s.Clients, use.Peaks[len(use.Peaks)-1], 100*rolloutShare, s.Quota, rolloutGuess, 100-within)
	return finish(f, "How many requests do clients send in their busiest minute?", about)
}

func rolloutY(clients float64) float64 {
	return rolloutBottom - (rolloutBottom-rolloutTop)*clients/rolloutHigh
}

// drawClients draws a bar for each range of requests: full for clients that stay within the quota,
// empty for those that don't.
func drawClients(f *figure.Figure, peaks []int64, quota int64) {
	type bar struct{ within, above float64 }
	var bars [rolloutBars]bar
	for _, peak := range peaks {
		i := min(int(math.Log(float64(peak))/math.Log(rolloutMost)*rolloutBars), rolloutBars-1)
		if peak <= quota {
			bars[i].within++
		} else {
			bars[i].above++
		}
	}
	width := rolloutWidth/rolloutBars - 2
	for i, b := range bars {
		x := rolloutLeft + rolloutWidth*float64(i)/rolloutBars + 1
		if b.within > 0 {
			f.Rect(x, rolloutY(b.within), width, rolloutBottom-rolloutY(b.within), 0.8, figure.Admitted)
		}
		if b.above > 0 {
			f.Rect(x+0.6, rolloutY(b.within+b.above), width-1.2, rolloutY(b.within)-rolloutY(b.within+b.above)-0.6, 0.8, figure.Denied)
		}
	}
}

// drawNumber draws a quota as a line with its name above.
func drawNumber(f *figure.Figure, quota, y float64, class figure.Class, name string) {
	x := rolloutX(quota)
	f.Line(x, y+6, x, rolloutBottom, figure.Edge)
	f.Text(x, y, class, figure.Middle, "%s", name)
}
