package prometheus

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/figure"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/observed"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

var picture = flag.String("picture", "", "the file for the picture of the dashboard's data: make screenshots")

// The parts of the picture's time. Rates are over rateWindow.
const (
	warmUp     = 15 * time.Second // not in the picture
	before     = 45 * time.Second
	outage     = 30 * time.Second
	after      = 45 * time.Second
	rateWindow = 5 * time.Second
)

// panel is one of the dashboard, found by its title. Lines are its series, in the order of their
// classes; others of the panel must be 0.
type panel struct {
	title string
	unit  string
	scale float64
	lines []line
}

// line is a series of a panel, or the sum of several: by their labels or, without any, by their
// queries.
type line struct {
	name   string
	labels []string
}

var panels = []panel{
	{"Decisions by reason", "/s", 1, []line{
		{"allowed", []string{"allowed within_limit"}},
		{"denied", []string{"denied limit_exceeded", "denied cached_denial", "denied blocked"}},
		{"would be denied", []string{"allowed shadowed"}},
		{"allowed without Redis", []string{"allowed outage_local"}},
		{"denied without Redis", []string{"denied outage_local"}},
	}},
	{"Share of 429 by limit", "%", 100, []line{{"customer", []string{"customer"}}, {"address", []string{"address"}}, {"login", []string{"login"}}}},
	{"Denials by route", "/s", 1, []line{{"/v1/search", []string{"/v1/search"}}, {"/catalog/{page}", []string{"/catalog/{page}"}}, {"/login", []string{"/login"}}}},
	{"Check", "ms", 1000, []line{{"p50", []string{"A"}}, {"p95", []string{"B"}}, {"p99", []string{"C"}}}},
}

// classes tell six lines apart: three colours, solid and dashed.
var classes = func() (all []figure.Class) {
	for _, suffix := range []figure.Class{"", " " + figure.Bound} {
		for _, class := range figure.Series {
			all = append(all, class+suffix)
		}
	}
	return all
}()

// The picture of README.md: what the dashboard shows of examples/observed on two instances, when Redis
// is killed and comes back. The queries are those of the dashboard, the data are a Prometheus's.
func TestPicture(t *testing.T) {
	if *picture == "" {
		t.Skip("-picture says where to")
	}
	redis := redistest.StartTCP(t)
	shop := observed.Start(t, redis.Addr())
	s := start(t, shop.URLs, "")
	time.Sleep(warmUp)
	began := time.Now()
	time.Sleep(before)
	redis.Kill()
	time.Sleep(outage)
	redis.Restart(t)
	time.Sleep(after)

	var data [][][]point
	for _, p := range panels {
		series := map[string][]point{}
		for refID, expression := range targets(t, p.title) {
			for label, points := range s.lines(t, expression, began) {
				series[cmp.Or(label, refID)] = points
			}
		}
		lines := make([][]point, len(p.lines))
		for i, l := range p.lines {
			for _, label := range l.labels {
				lines[i] = sum(lines[i], series[label])
				delete(series, label)
			}
			if highest(lines[i]) <= 0 {
				t.Errorf("the panel %s has no data for %s", p.title, l.name)
			}
		}
		for label, points := range series {
			if highest(points) > 0 {
				t.Errorf("the panel %s has a series %q that the picture leaves out", p.title, label)
			}
		}
		data = append(data, lines)
	}
	must.OK(t, os.WriteFile(*picture, []byte(draw(data)), 0o644))
}

// targets returns the queries of a panel of the dashboard, by their ids.
func targets(t *testing.T, title string) map[string]string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(documents.Root, "deploy/grafana/weblimit.json")))(t)
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr, RefID string }
		}
	}
	must.OK(t, json.Unmarshal(text, &dashboard))
	all := map[string]string{}
	for _, p := range dashboard.Panels {
		if p.Title == title && p.Type == "timeseries" {
			for _, target := range p.Targets {
				all[target.RefID] = strings.NewReplacer("$__rate_interval", rateWindow.String(), "$job", "shop", "$instance", ".*", "$limit", ".*").Replace(target.Expr)
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("the dashboard has no panel %q", title)
	}
	return all
}

// point is a value at a time since the picture's beginning.
type point struct {
	at    time.Duration
	value float64
}

// lines returns the series of an expression by their labels' values.
func (s *server) lines(t *testing.T, expression string, began time.Time) map[string][]point {
	t.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Values []sample
		}
	}
	end := began.Add(before + outage + after)
	must.OK(t, s.get("query_range", url.Values{
		"query": {expression}, "start": {fmt.Sprint(began.Unix())}, "end": {fmt.Sprint(end.Unix())}, "step": {"1"},
	}, &data))
	all := map[string][]point{}
	for _, series := range data.Result {
		var values []string
		for _, name := range slices.Sorted(maps.Keys(series.Metric)) {
			values = append(values, series.Metric[name])
		}
		label := strings.Join(values, " ")
		for _, v := range series.Values {
			seconds, _ := v[0].(float64)
			at := time.Duration((seconds - float64(began.Unix())) * float64(time.Second))
			all[label] = append(all[label], point{at, v.value()})
		}
	}
	return all
}

// sum adds series up. One may begin later than the other, or lack a time.
func sum(a, b []point) []point {
	values := map[time.Duration]float64{}
	for _, p := range slices.Concat(a, b) {
		values[p.at] += p.value
	}
	var all []point
	for _, at := range slices.Sorted(maps.Keys(values)) {
		all = append(all, point{at, values[at]})
	}
	return all
}

func highest(points []point) (most float64) {
	for _, p := range points {
		if !math.IsNaN(p.value) {
			most = max(most, p.value)
		}
	}
	return most
}

// draw draws the panels below each other, over one time.
func draw(data [][][]point) string {
	const (
		left, right = 44.0, figure.Width - 14.0
		plot        = 84.0 // the height of a plot
		entry       = 18.0 // and of a line of its legend
		whole       = before + outage + after
	)
	x := func(at time.Duration) float64 { return left + (right-left)*at.Seconds()/whole.Seconds() }
	height := 44.0
	for _, p := range panels {
		height += 34 + entry*legendRows(p) + plot + 14
	}
	f := figure.New(int(height) + 30)
	f.Text(14, 27, figure.Title, figure.Start, "Two instances while Redis is away")
	y := 44.0
	for i, p := range panels {
		f.Text(14, y+16, figure.Strong, figure.Start, "%s, %s", p.title, p.unit)
		y += 34
		columns := legendColumns(p)
		for j, l := range p.lines {
			at := 14 + float64(j%columns)*(figure.Width-14)/float64(columns)
			below := y + entry*float64(j/columns)
			f.Line(at, below-5, at+22, below-5, classes[j])
			f.Text(at+28, below, figure.Soft, figure.Start, "%s", l.name)
		}
		y += entry*legendRows(p) - 6
		f.Rect(x(before), y, x(before+outage)-x(before), plot, 0, figure.Strip)
		if i == 0 {
			f.Text(x(before+outage/2), y+14, figure.Soft, figure.Middle, "no Redis")
		}
		top := 0.0
		for _, points := range data[i] {
			top = max(top, highest(points)*p.scale)
		}
		top = rounded(top)
		for _, share := range []float64{0, 0.5, 1} {
			level := y + plot*(1-share)
			f.Line(left, level, right, level, figure.Grid)
			f.Text(left-6, level+5, figure.Soft, figure.End, "%s", strconv.FormatFloat(top*share, 'f', -1, 64))
		}
		for j, values := range data[i] {
			var points []figure.Point
			for _, v := range values {
				if !math.IsNaN(v.value) {
					points = append(points, figure.Point{X: x(v.at), Y: y + plot*(1-v.value*p.scale/top)})
				} else if len(points) > 0 { // a gap
					f.Polyline(points, classes[j])
					points = nil
				}
			}
			if len(points) > 0 {
				f.Polyline(points, classes[j])
			}
		}
		y += plot + 20
	}
	for at := time.Duration(0); at <= whole; at += 30 * time.Second {
		anchor := figure.Middle
		if at == whole {
			anchor = figure.End
		}
		f.Text(x(at), y+8, figure.Soft, anchor, "%d s", int(at.Seconds()))
	}
	return f.SVG("What the dashboard shows of an outage",
		"Four panels over two minutes, with the queries of the dashboard: decisions by reason, share of 429 by limit, denials by route, and the time that checks take. "+
			"In the middle Redis is down for half a minute, and decisions are made without the store.")
}

// legendColumns returns how many entries of a legend are beside each other.
func legendColumns(p panel) int {
	if len(p.lines) > 3 {
		return 2 // they have long names
	}
	return 3
}

func legendRows(p panel) float64 {
	return math.Ceil(float64(len(p.lines)) / float64(legendColumns(p)))
}

// rounded returns the next of 1, 2, 4, 6 and 8 times a power of ten.
func rounded(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 4, 6, 8} {
		if n*power >= v {
			return n * power
		}
	}
	return 10 * power
}
