package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
)

// pictures is the folder of the figures.
const pictures = documents.Root + "/docs/pictures/"

// The figures in docs are those that the code draws.
func TestTheFiguresAreCheckedIn(t *testing.T) {
	t.Parallel()
	drawn := figures()
	for name, d := range drawn {
		if documents.Read(t, "pictures/"+name) != d.svg {
			t.Errorf("docs/pictures/%s is not what the code draws: run make plots and look at it", name)
		}
	}
	// By make screenshots, internal/test/prefetchsim/plot, internal/test/regionsim, internal/test/fairsim and bench/report.
	drawnElsewhere := []string{"dashboard.svg", "prefetch.svg", "regions.svg", "fair.svg", "speed.svg"}
	for _, file := range must.Get(filepath.Glob(pictures + "*.svg"))(t) {
		if name := filepath.Base(file); drawn[name].svg == "" && !slices.Contains(drawnElsewhere, name) {
			t.Errorf("%s is a figure that nothing draws", file)
		}
	}
}

// The figures in docs are well-formed, have a title and a description, and hold no scripts and
// nothing from elsewhere.
func TestFiguresAreSafeAndReadable(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(pictures + "*.svg")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	known := strings.Fields("svg title desc style rect text line polyline polygon circle")
	for _, name := range files {
		source := must.Get(os.ReadFile(name))(t)
		svg := string(source)
		elements := map[string]int{}
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if start, ok := token.(xml.StartElement); ok {
				elements[start.Name.Local]++
			}
		}
		for element := range elements {
			if !slices.Contains(known, element) {
				t.Errorf("%s has an element %s", name, element)
			}
		}
		if elements["title"] != 1 || elements["desc"] != 1 || elements["text"] < 5 {
			t.Errorf("%s lacks a title, a description or text: %v", name, elements)
		}
		if strings.Contains(svg, "href") || strings.Contains(svg, "url(") || !strings.Contains(svg, "prefers-color-scheme:dark") {
			t.Errorf("%s refers to something else, or has no colours for dark pages", name)
		}
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || strings.Contains(svg, `="-`) {
			t.Errorf("%s has a number that is none, or something outside of it", name)
		}
	}
}

// No attacker gets more than the bound that the figure states, and all but the one below it
// get that or one less: the bound is not idle.
func TestAttackersReachTheBoundAndNoMore(t *testing.T) {
	t.Parallel()
	for _, a := range algorithms() {
		if a.most == 0 {
			continue
		}
		r := newRun(a.limit, a.attack.from)
		r.attack(a.strikes, a.attack.to, 0)
		if most, _ := r.most(a.window); most > a.most || most < a.most-1 {
			t.Errorf("%s: an attacker gets %d within %s, the figure says at most %d", a.file, most, a.span, a.most)
		}
	}
}

// The numbers that docs/choose/algorithms.md has beside those of the figures.
func TestNumbersOfThePage(t *testing.T) {
	t.Parallel()
	r := newRun(core.PerMinute(quota).Burst(2), midnight)
	r.attack(midnight, midnight.Add(5*time.Minute), 0)
	if most, _ := r.most(time.Minute); most < 11 || most > 12 {
		t.Errorf("PerMinute(10).Burst(2) admits %d within a minute, the page says at most 12", most)
	}
	for into, want := range map[time.Duration]time.Duration{0: 66 * time.Second, time.Minute - time.Microsecond: 6*time.Second + time.Microsecond} {
		r := newRun(core.PerMinute(quota).SlidingWindow(), midnight.Add(into))
		for range quota {
			r.take(0)
		}
		if wait := r.take(0).RetryAfter; wait != want {
			t.Errorf("a burst %v after the start of a sliding window waits for %v, want %v", into, wait, want)
		}
	}
}

// docs/choose/algorithms.md shows every figure with the text that the code gives it, and the rows of
// its tables are those that the code prints.
func TestThePageIsWhatTheCodePrints(t *testing.T) {
	t.Parallel()
	page := documents.Read(t, "choose/algorithms.md")
	rows := slices.Concat(integersTable(), headersTable())
	for name, d := range figures() {
		switch name {
		case "overview.svg":
		case "rollout.svg", "where.svg":
			other := map[string]string{"rollout.svg": "run/rollout.md", "where.svg": "choose/where.md"}[name]
			if row := d.markdown("../pictures/" + name); !strings.Contains(documents.Read(t, other), "\n"+row+"\n") {
				t.Errorf("docs/%s lacks this line, see make plots:\n%s", other, row)
			}
		default:
			rows = append(rows, d.markdown("../pictures/"+name))
		}
	}
	for _, row := range rows {
		if !strings.Contains(page, "\n"+row+"\n") {
			t.Errorf("docs/choose/algorithms.md lacks this line, see make plots:\n%s", row)
		}
	}
}

// Where the README shows the overview, it has the text that the code gives it.
func TestTheOverviewHasItsText(t *testing.T) {
	t.Parallel()
	readme := must.Get(os.ReadFile(filepath.Join(documents.Root, "README.md")))(t)
	const path = "docs/pictures/overview.svg"
	if want := drawOverview().markdown(path); strings.Contains(string(readme), path) && !strings.Contains(string(readme), want) {
		t.Errorf("README.md shows the overview without this text:\n%s", want)
	}
}

// A new algorithm has a figure, too. A ledger admits what a calendar window does.
func TestEveryAlgorithmHasAFigure(t *testing.T) {
	t.Parallel()
	drawn := map[store.Algorithm]bool{}
	for _, a := range algorithms() {
		drawn[newRun(a.limit, midnight).rule.Algorithm] = true
	}
	for _, a := range counting.Algorithms() {
		if !drawn[a] && a != store.Ledger {
			t.Errorf("no figure of docs/choose/algorithms.md draws the %v", a)
		}
	}
}

// Slots that were taken are given back when a request ends, also where two end at once.
func TestRunsFreeSlots(t *testing.T) {
	t.Parallel()
	a := concurrent()
	r := newRun(a.limit, midnight)
	r.steady(midnight, time.Second, 10*time.Second, 3)
	check.Equal(t, "of 3 requests run", r.running(), 3)
	r.advance(midnight.Add(time.Minute).UnixMicro())
	check.Equal(t, "requests run after all have ended", r.running(), 0)
}
