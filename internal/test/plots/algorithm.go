package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/figure"
)

// algorithm is the figure of one algorithm: a busy client on the left, an attacker on the
// right; above the requests, below what the limit has left.
type algorithm struct {
	file  string
	title []string // lines
	about string   // for screen readers: what the figure shows, before the figures of this run

	limit  core.Limit
	window time.Duration // in which the attacker's requests are counted
	span   string        // its name, such as "60 s"
	bound  string        // the most that any such window admits, as a formula
	most   int           // and as a number; 0 if there is no bound
	claim  string        // the last line; defaults to the bound

	busy, attack panel
	every        time.Duration // between the requests of the busy client
	requests     int
	runs         time.Duration // of requests that take slots: how long those of the busy client run
	runsBriefly  time.Duration // and the attacker's
	load         string        // the busy client in words
	aim          string        // the attacker
	strikes      time.Time
	bin          time.Duration // requests within it are stacked
	counted      string        // the upper axis in words
	time         string        // the time axis in words

	edges []time.Time // of windows
	level string      // the lower axis in words
	full  float64     // its highest value
	read  func(*run) float64
}

// panel is a part of the time axis.
type panel struct {
	from, to time.Time
	ticks    []tick
	left     float64 // its place
}

type tick struct {
	at    time.Time
	label string
}

const (
	panelLeft   = 40.0
	panelWidth  = 190.0
	panelGap    = 44.0
	marksTop    = 124.0 // the upper panels
	marksHeight = 96.0
	marksMost   = 12 // requests in a stack
	levelTop    = 258.0
	levelHeight = 76.0
)

func (p panel) x(at int64) float64 {
	return p.left + panelWidth*float64(at-p.from.UnixMicro())/float64(p.to.UnixMicro()-p.from.UnixMicro())
}

func (p panel) holds(at int64) bool { return at >= p.from.UnixMicro() && at <= p.to.UnixMicro() }

// clients returns the two clients, each with its own store, and what was read of it.
func (a algorithm) clients() (busy, attacker *run, busyLevel, attackLevel []figure.Point) {
	watch := func(p panel, level *[]figure.Point) *run {
		r := newRun(a.limit, p.from)
		r.step = p.to.Sub(p.from).Microseconds() / 480
		r.see = func(r *run) { *level = append(*level, figure.Point{X: p.x(r.now), Y: a.read(r)}) }
		return r
	}
	busy, attacker = watch(a.busy, &busyLevel), watch(a.attack, &attackLevel)
	busy.steady(a.busy.from, a.every, a.runs, a.requests)
	busy.advance(a.busy.to.UnixMicro())
	attacker.attack(a.strikes, a.attack.to, a.runsBriefly)
	return busy, attacker, busyLevel, attackLevel
}

func (a algorithm) draw() drawing {
	a.busy.left, a.attack.left = panelLeft, panelLeft+panelWidth+panelGap
	busy, attacker, busyLevel, attackLevel := a.clients()
	most, from := attacker.most(a.window)

	f := figure.New(430)
	for i, line := range a.title {
		f.Text(14, 27+20*float64(i), figure.Title, figure.Start, "%s", line)
	}
	f.Text(a.busy.left, marksTop-48, figure.Strong, figure.Start, "%s", a.load)
	f.Text(a.attack.left, marksTop-48, figure.Strong, figure.Start, "%s", a.aim)
	a.drawMarks(f, a.busy, busy)
	a.drawMarks(f, a.attack, attacker)
	a.drawLevel(f, a.busy, busyLevel)
	a.drawLevel(f, a.attack, attackLevel)
	f.Text(a.busy.left, marksTop-30, figure.Soft, figure.Start, "%d of %d admitted", busy.admitted(), len(busy.events))
	f.Text(14, marksTop-10, figure.Soft, figure.Start, "%s", a.counted)
	f.Text(14, levelTop-12, figure.Soft, figure.Start, "%s", a.level)
	a.bracket(f, most, from)
	f.Text(figure.Width-16, 386, figure.Soft, figure.End, "%s", a.time)
	legend(f, 14, 386)
	f.Text(14, 413, figure.WorstInk, figure.Start, "%s", a.claimed())
	return finish(f, strings.Join(a.title, " "), fmt.Sprintf("%s The client on the left gets %d of %d requests. The client on the right gets %d within %s. %s.",
		a.about, busy.admitted(), len(busy.events), most, a.span, a.claimed()))
}

func (a algorithm) claimed() string {
	if a.claim != "" {
		return a.claim
	}
	return fmt.Sprintf("In any %s at most %s = %d", a.span, a.bound, a.most)
}

// drawMarks stacks the requests of each bin: those admitted below, those denied on top.
func (a algorithm) drawMarks(f *figure.Figure, p panel, r *run) {
	bottom := marksTop + marksHeight
	for _, y := range []int{0, 5, 10} {
		at := bottom - marksHeight*float64(y)/marksMost
		f.Line(p.left, at, p.left+panelWidth, at, figure.Grid)
		f.Text(p.left-6, at+4.5, figure.Soft, figure.End, "%d", y)
	}
	a.drawEdges(f, p, marksTop, bottom)
	for from := p.from; from.Before(p.to); {
		to := from.Add(a.bin)
		for _, edge := range a.edges { // bins begin at the edges of windows, too
			if edge.After(from) && edge.Before(to) {
				to = edge
			}
		}
		size := min(p.x(to.UnixMicro())-p.x(from.UnixMicro()), marksHeight/marksMost)
		height := 0
		for _, admitted := range []bool{true, false} {
			for _, e := range r.events {
				if e.admitted == admitted && e.start >= from.UnixMicro() && e.start < to.UnixMicro() {
					height++
					f.Mark(p.x(from.UnixMicro())+0.4, bottom-float64(height)*marksHeight/marksMost+0.4, size-0.8, admitted)
				}
			}
		}
		from = to
	}
}

func (a algorithm) drawEdges(f *figure.Figure, p panel, top, bottom float64) {
	for _, edge := range a.edges {
		if p.holds(edge.UnixMicro()) {
			f.Line(p.x(edge.UnixMicro()), top, p.x(edge.UnixMicro()), bottom, figure.Edge)
		}
	}
}

func (a algorithm) drawLevel(f *figure.Figure, p panel, level []figure.Point) {
	bottom := levelTop + levelHeight
	y := func(value float64) float64 { return bottom - levelHeight*value/a.full }
	for _, value := range []float64{0, a.full} {
		f.Line(p.left, y(value), p.left+panelWidth, y(value), figure.Grid)
		f.Text(p.left-6, y(value)+4.5, figure.Soft, figure.End, "%.0f", value)
	}
	a.drawEdges(f, p, levelTop, bottom)
	for _, t := range p.ticks {
		x := p.x(t.at.UnixMicro())
		f.Line(x, bottom, x, bottom+4, figure.Grid)
		f.Text(x, bottom+18, figure.Soft, figure.Middle, "%s", t.label)
	}
	for i := range level {
		level[i].Y = y(level[i].Y)
	}
	f.Polyline(thin(level), figure.Level)
}

// bracket marks the worst window over the attacker's requests.
func (a algorithm) bracket(f *figure.Figure, most int, from int64) {
	left, right := a.attack.x(from), a.attack.x(from+a.window.Microseconds())
	y := marksTop - 22.0
	f.Polyline([]figure.Point{{X: left, Y: y + 6}, {X: left, Y: y}, {X: right, Y: y}, {X: right, Y: y + 6}}, figure.Worst)
	f.Text((left+right)/2, y-7, figure.WorstInk, figure.Middle, "%d within %s", most, a.span)
}

// legend explains the marks.
func legend(f *figure.Figure, x, y float64) {
	f.Mark(x, y-9, 9, true)
	f.Text(x+14, y, figure.Soft, figure.Start, "admitted")
	f.Mark(x+86, y-9, 9, false)
	f.Text(x+100, y, figure.Soft, figure.Start, "denied")
}

// thin leaves out points on the straight line between their neighbours.
func thin(points []figure.Point) []figure.Point {
	var kept []figure.Point
	for i, p := range points {
		if i > 0 && i < len(points)-1 {
			last, next := kept[len(kept)-1], points[i+1]
			cross := (p.X-last.X)*(next.Y-last.Y) - (p.Y-last.Y)*(next.X-last.X)
			if math.Abs(cross) < 0.05 && (p.X-last.X)*(next.X-p.X) >= 0 && (p.Y-last.Y)*(next.Y-p.Y) >= 0 {
				continue
			}
		}
		kept = append(kept, p)
	}
	return kept
}
