// Package figure draws the figures of docs as SVG: readable on light and dark pages and at
// the width of a phone, text as text, colours that the colour-blind can tell apart.
package figure

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Width is the width of every figure in its own units. Pages show it 600 pixels wide, or as
// wide as the screen of a phone: the smallest text, of 13 units, then has some 9 pixels.
const Width = 480

// Figure is a drawing under construction.
type Figure struct {
	height int
	body   strings.Builder
}

// Class is a name of the style sheet.
type Class string

// The classes. Admitted and denied differ in more than colour: full squares and empty ones.
const (
	Ink      Class = "ink"      // text
	Soft     Class = "soft"     // text of less weight: ticks, units
	Strong   Class = "strong"   // headings
	Title    Class = "title"    // what the figure says
	Admitted Class = "admitted" // a full mark
	Denied   Class = "denied"   // the outline of a mark
	Level    Class = "level"    // a line of data
	Worst    Class = "worst"    // a bracket or a frame that points at something
	WorstInk Class = "worstink" // its text
	Grid     Class = "grid"     // a thin line behind data
	Edge     Class = "edge"     // a dashed line: the edge of a window
	Box      Class = "box"      // a box of a diagram
	Strip    Class = "strip"    // a tinted box
	Arrow    Class = "arrow"    // a line of a diagram
	Bound    Class = "bound"    // a dashed line, beside the class of a series
)

// Series are the classes of up to three lines of one diagram. Their points have shapes of
// their own: a circle, a square, a triangle.
var Series = [3]Class{"first", "second", "third"}

// The first colours are for light pages, the second for dark ones. Blue and vermilion are
// those of Okabe and Ito's palette.
const style = `text{font:14px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:#1f2328}
.title{font-size:16px;font-weight:600}
.strong{font-weight:600}
.soft{font-size:13px;fill:#59636e}
.worstink{font-weight:600;fill:#a04000}
.page{fill:#ffffff}
.admitted{fill:#0072b2}
.denied{fill:none;stroke:#d55e00;stroke-width:1.2}
.level{fill:none;stroke:#0072b2;stroke-width:2;stroke-linejoin:round}
.worst{fill:none;stroke:#d55e00;stroke-width:1.6}
.grid{stroke:#d1d9e0;stroke-width:1}
.edge{stroke:#59636e;stroke-width:1;stroke-dasharray:3 3}
.box{fill:#f6f8fa;stroke:#8c959f;stroke-width:1.2}
.strip{fill:#ddf0fb;stroke:#0072b2;stroke-width:1.2}
.arrow{fill:none;stroke:#59636e;stroke-width:1.6}
.head{fill:#59636e}
.first,.second,.third{fill:none;stroke:#0072b2;stroke-width:2}
.second{stroke:#d55e00}
.third{stroke:#007a5a}
.bound{stroke-dasharray:6 4}
.key{stroke:#59636e;stroke-width:2}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}
.soft{fill:#9198a1}
.worstink{fill:#f0b060}
.page{fill:#0d1117}
.admitted{fill:#56b4e9}
.denied,.worst{stroke:#e69f00}
.level{stroke:#56b4e9}
.grid{stroke:#3d444d}
.edge,.arrow{stroke:#9198a1}
.box{fill:#151b23;stroke:#656c76}
.strip{fill:#10283a;stroke:#56b4e9}
.head{fill:#9198a1}
.first{stroke:#56b4e9}
.second{stroke:#e69f00}
.third{stroke:#2fc99b}
.key{stroke:#9198a1}
}
`

// New returns an empty figure of a height.
func New(height int) *Figure { return &Figure{height: height} }

// Anchor says which end of a text is at its place.
type Anchor string

// The anchors.
const (
	Start  Anchor = "start"
	Middle Anchor = "middle"
	End    Anchor = "end"
)

// Text writes a line of text.
func (f *Figure) Text(x, y float64, class Class, anchor Anchor, format string, args ...any) {
	at := ""
	if anchor != Start {
		at = fmt.Sprintf(` text-anchor="%s"`, anchor)
	}
	fmt.Fprintf(&f.body, `<text x="%v" y="%v" class="%s"%s>%s</text>`+"\n", number(x), number(y), class, at, escape(fmt.Sprintf(format, args...)))
}

// Line draws a straight line.
func (f *Figure) Line(x1, y1, x2, y2 float64, class Class) {
	fmt.Fprintf(&f.body, `<line x1="%v" y1="%v" x2="%v" y2="%v" class="%s"/>`+"\n", number(x1), number(y1), number(x2), number(y2), class)
}

// Rect draws a rectangle with rounded corners.
func (f *Figure) Rect(x, y, width, height, radius float64, class Class) {
	fmt.Fprintf(&f.body, `<rect x="%v" y="%v" width="%v" height="%v" rx="%v" class="%s"/>`+"\n", number(x), number(y), number(width), number(height), number(radius), class)
}

// Mark draws a request as a square of a size: full if it was admitted, empty if not.
func (f *Figure) Mark(x, y, size float64, admitted bool) {
	if admitted {
		f.Rect(x, y, size, size, 0.8, Admitted)
	} else {
		f.Rect(x+0.6, y+0.6, size-1.2, size-1.2, 0.8, Denied)
	}
}

// number is a coordinate, written to a tenth. What lies half-way between two tenths is rounded
// up, however a processor rounded on the way there: figures are the same on all of them.
type number float64

func (n number) String() string {
	return strconv.FormatFloat(math.Floor(float64(n)*10+0.5+1e-6)/10, 'f', -1, 64)
}

// Point is a place of a line.
type Point struct{ X, Y float64 }

// Polyline draws a line through points.
func (f *Figure) Polyline(points []Point, class Class) {
	fmt.Fprintf(&f.body, `<polyline class="%s" points="`, class)
	for i, p := range points {
		if i > 0 {
			f.body.WriteByte(' ')
		}
		fmt.Fprintf(&f.body, "%v,%v", number(p.X), number(p.Y))
	}
	f.body.WriteString("\"/>\n")
}

// Dot draws a point of a series.
func (f *Figure) Dot(x, y float64, series int) {
	const r = 3.5
	switch class := Series[series]; series {
	case 0:
		fmt.Fprintf(&f.body, `<circle cx="%v" cy="%v" r="%v" class="%s"/>`+"\n", number(x), number(y), number(r), class)
	case 1:
		f.Rect(x-r, y-r, 2*r, 2*r, 0, class)
	default:
		fmt.Fprintf(&f.body, `<polygon class="%s" points="%v,%v %v,%v %v,%v"/>`+"\n", class, number(x), number(y-r-0.5), number(x+r+0.5), number(y+r), number(x-r-0.5), number(y+r))
	}
}

// Arrow draws a line that ends in a head.
func (f *Figure) Arrow(points ...Point) {
	f.Polyline(points, Arrow)
	end, before := points[len(points)-1], points[len(points)-2]
	dx, dy := sign(end.X-before.X), sign(end.Y-before.Y) // arrows end horizontally or vertically
	fmt.Fprintf(&f.body, `<polygon class="head" points="%v,%v %v,%v %v,%v"/>`+"\n",
		number(end.X+2*dx), number(end.Y+2*dy), number(end.X-6*dx-4*dy), number(end.Y-6*dy-4*dx), number(end.X-6*dx+4*dy), number(end.Y-6*dy+4*dx))
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// SVG returns the figure. Title and description are what screen readers read.
func (f *Figure) SVG(title, description string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[3]d" height="%[4]d" role="img" aria-labelledby="title description">
<title id="title">%[5]s</title>
<desc id="description">%[6]s</desc>
<style>
%[7]s</style>
<rect class="page" width="%[1]d" height="%[2]d" rx="6"/>
%[8]s</svg>
`, Width, f.height, Width*5/4, f.height*5/4, escape(title), escape(description), style, f.body.String())
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder never fails
	return b.String()
}
