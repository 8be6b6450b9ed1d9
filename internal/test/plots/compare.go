package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/figure"
)

// compared are the rows of the figure that compares the algorithms.
var compared = []struct {
	name  string
	limit core.Limit
}{
	{"Token bucket", core.PerMinute(quota)},
	{"Fixed window", core.PerMinute(quota).FixedWindow()},
	{"Sliding window", core.PerMinute(quota).SlidingWindow()},
	{"Sliding log", core.PerMinute(quota).SlidingLog()},
	{"Leaky bucket", core.PerMinute(quota).LeakyBucket(30 * time.Second)},
}

// phase is a part of the load that all rows get.
type phase struct {
	name     string
	from     time.Duration
	every    time.Duration
	requests int
}

var load = []phase{
	{"6/min", 0, 10 * time.Second, 6},
	{"14 at once", 75 * time.Second, time.Millisecond, 14},
	{"24/min", 105 * time.Second, 2500 * time.Millisecond, 30},
	{"12 and 12", 4*time.Minute - time.Second, time.Millisecond, 12},
	{"", 4 * time.Minute, time.Millisecond, 12},
}

func (p phase) middle() time.Duration {
	return p.from + time.Duration(p.requests)*p.every/2
}

const (
	comparedLeft  = 36.0
	comparedWidth = 420.0
	comparedTop   = 92.0
	comparedRow   = 98.0
	perRequest    = 4.2
	comparedBin   = 5 * time.Second
	comparedTime  = 5 * time.Minute
)

func comparedX(into time.Duration) float64 {
	return comparedLeft + comparedWidth*float64(into)/float64(comparedTime)
}

// drawComparison draws what each algorithm admits of one load.
func drawComparison() drawing {
	f := figure.New(654)
	f.Text(14, 27, figure.Title, figure.Start, "The same requests and the same quota,")
	f.Text(14, 47, figure.Title, figure.Start, "ten per minute: what each algorithm admits")
	for _, p := range load {
		f.Text(comparedX(p.middle()), 78, figure.Soft, figure.Middle, "%s", p.name)
	}
	var about strings.Builder
	bottom := comparedTop
	for _, c := range compared {
		bottom += comparedRow
		r := newRun(c.limit, midnight)
		for _, p := range load {
			r.steady(midnight.Add(p.from), p.every, 0, p.requests)
		}
		most, _ := r.most(time.Minute)
		f.Text(14, bottom-72, figure.Strong, figure.Start, "%s: %d of %d admitted", c.name, r.admitted(), len(r.events))
		f.Text(comparedLeft+comparedWidth, bottom-72, figure.WorstInk, figure.End, "most in 60 s: %d", most)
		for _, y := range []int{0, 10} {
			at := bottom - perRequest*float64(y)
			f.Line(comparedLeft, at, comparedLeft+comparedWidth, at, figure.Grid)
			f.Text(comparedLeft-6, at+4.5, figure.Soft, figure.End, "%d", y)
		}
		drawBars(f, r, bottom)
		fmt.Fprintf(&about, " %s: %d of %d admitted, %d of them within 60 seconds.", c.name, r.admitted(), len(r.events), most)
	}
	for at := time.Duration(0); at <= comparedTime; at += time.Minute {
		f.Text(comparedX(at), bottom+20, figure.Soft, figure.Middle, "%d:00", at/time.Minute)
	}
	legend(f, 14, bottom+50)
	f.Text(comparedLeft+comparedWidth, bottom+50, figure.Soft, figure.End, "requests per 5 s; time, minutes:seconds")
	return finish(f, "The same requests and the same quota of ten per minute: what each algorithm admits",
		"Five minutes: 6 requests per minute, 14 at once, 24 per minute, then 12 just before minute four and 12 just after it."+about.String())
}

// drawBars draws what was admitted, and on top of it what was denied.
func drawBars(f *figure.Figure, r *run, bottom float64) {
	for minute := time.Minute; minute < comparedTime; minute += time.Minute {
		f.Line(comparedX(minute), bottom-59, comparedX(minute), bottom, figure.Edge)
	}
	width := comparedX(comparedBin) - comparedX(0) - 1
	for from := time.Duration(0); from < comparedTime; from += comparedBin {
		count := map[bool]float64{}
		for _, e := range r.events {
			if into := time.Duration(e.start-midnight.UnixMicro()) * time.Microsecond; into >= from && into < from+comparedBin {
				count[e.admitted]++
			}
		}
		x, admitted, denied := comparedX(from)+0.5, perRequest*count[true], perRequest*count[false]
		if admitted > 0 {
			f.Rect(x, bottom-admitted, width, admitted, 0.8, figure.Admitted)
		}
		if denied > 0 {
			f.Rect(x+0.6, bottom-admitted-denied+0.6, width-1.2, denied-1.2, 0.8, figure.Denied)
		}
	}
}
