package main

import (
	"fmt"
	"strings"

	"github.com/weblimit/weblimit/internal/test/prefetchsim"
)

const (
	width, height = 920, 430
	panelWidth    = 370
	panelHeight   = 250
	top           = 80
)

// panel is one diagram: percent of the quota over the number of instances.
type panel struct {
	left    int
	title   string
	highest float64 // percent
	step    float64 // of the grid
}

// series is one line of a diagram.
type series struct {
	colour string
	dashed bool
	shift  float64 // pixels, so that equal values can be told apart
	of     int     // which algorithm
}

var colours = []string{"#0b66c3", "#c2410c", "#15803d"}

func draw(results outcomes) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13" fill="#1f2937">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="26" font-size="16" font-weight="600">Prefetching: the stated bounds and what a simulation measured</text>`+"\n", 60)
	fmt.Fprintf(&b, `<text x="%d" y="46" fill="#4b5563">Fraction 0.02, MaxAge 100 ms; uneven load that comes and goes, 120 %% of the quota on average; an instance dies each second</text>`+"\n", 60)

	over := panel{60, "Granted beyond the limit", 16, 4}
	over.frame(&b)
	under := panel{60 + panelWidth + 90, "Free when a request was denied", 16, 4}
	under.frame(&b)
	for a := range algorithms {
		s := series{colour: colours[a], of: a, shift: 6 * float64(a-1)}
		over.line(&b, results, s, func(o prefetchsim.Outcome) int64 { return o.Over })
		under.line(&b, results, s, func(o prefetchsim.Outcome) int64 { return o.Under })
		s.dashed = true
		over.line(&b, results, s, func(o prefetchsim.Outcome) int64 { return o.OverBound })
		under.line(&b, results, s, func(o prefetchsim.Outcome) int64 { return o.UnderBound })
	}
	legend(&b)
	b.WriteString("</svg>\n")
	return b.String()
}

func (p panel) y(percent float64) float64 {
	return top + panelHeight - panelHeight*percent/p.highest
}

func (p panel) x(i int) float64 {
	return float64(p.left) + panelWidth*(0.08+0.84*float64(i)/float64(len(counts)-1))
}

// frame draws all but the lines.
func (p panel) frame(b *strings.Builder) {
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="600">%s, %% of the quota</text>`+"\n", p.left, top-12, p.title)
	for at := 0.0; at <= p.highest; at += p.step {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e5e7eb"/>`, p.left, p.left+panelWidth, p.y(at), p.y(at))
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end" fill="#4b5563">%.0f</text>`+"\n", p.left-8, p.y(at)+4, at)
	}
	for i, n := range counts {
		label := fmt.Sprint(n)
		if n >= 1000 {
			label = fmt.Sprintf("%d,%03d", n/1000, n%1000)
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#4b5563">%s</text>`+"\n", p.x(i), top+panelHeight+20, label)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">instances</text>`+"\n", p.left+panelWidth/2, top+panelHeight+40)
}

func (p panel) line(b *strings.Builder, results outcomes, s series, value func(prefetchsim.Outcome) int64) {
	points := make([]string, len(counts))
	marks := ""
	for i := range counts {
		x, y := p.x(i)+s.shift, p.y(100*float64(value(results[s.of][i]))/quota)
		points[i] = fmt.Sprintf("%.1f,%.1f", x, y)
		if !s.dashed {
			marks += fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`, x, y, s.colour)
		}
	}
	dash := ""
	if s.dashed {
		dash = ` stroke-dasharray="6 4"`
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>%s`+"\n", strings.Join(points, " "), s.colour, dash, marks)
}

func legend(b *strings.Builder) {
	x, y := 60, height-24
	for a := range algorithms {
		fmt.Fprintf(b, `<circle cx="%d" cy="%d" r="4" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, y-4, colours[a], x+10, y, algorithms[a].name)
		x += 150
	}
	for _, l := range []struct{ dash, text string }{{"", "measured, at most"}, {` stroke-dasharray="6 4"`, "bound"}} {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#4b5563" stroke-width="2"%s/><text x="%d" y="%d">%s</text>`+"\n", x, x+26, y-4, y-4, l.dash, x+34, y, l.text)
		x += 190
	}
}
