package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestRatiosAreThoseWithinRounds(t *testing.T) {
	t.Parallel()
	all := parsed(t, output)
	own, other := "Redis/weblimit/1-key/64/allow", "Redis/other/1-key/64/allow"
	// 4000/1000 and 2000/2000, and one half of the first round's checks failed: a quarter
	// of all, in the median.
	check.Equal(t, "faster", all.faster(own, other), 2.5/0.75)
	check.Equal(t, "perSecond", all.perSecond(other), 1e9/3000*0.75)
	check.Equal(t, "faster than nobody", all.faster(own, "Redis/nobody"), 0)
}

func TestPageHasTheFigures(t *testing.T) {
	t.Parallel()
	written := must.Get(pages(parsed(t, output+"profile: hot|cpu|  1s a|b\n")))(t)
	for _, want := range []string{
		"| date | 2026-01-03 |",
		"| | weblimit | times redis_rate |",
		"| other | `example.com/o` | v1.2.3 | fixed window |",
		"| **weblimit** | – | – | 667,000 | – |",
		"| other | – | – | 250,000† (3.33×) | – |",
		"Of all checks: Redis/other/1-key/64/allow 25.0 %.",
		"None, in this run.",
	} {
		check.Contains(t, "the page for users", string(written["choose/speed.md"]), want)
	}
	for _, want := range []string{
		"| **weblimit** | – | – | 653 / 3,040 | – |",
		"| Redis, 1 key, 64 at a time: the best limiter | ≥ 2.3× | 3.33× (other) | – | met |",
	} {
		check.Contains(t, "the page for maintainers", string(written["maintain/benchmarks.md"]), want)
	}
	check.Contains(t, "the profiles", string(written["maintain/profiles.md"]), "  1s a|b\n")
	for name, text := range written {
		if strings.Contains(string(text), "missed") && name == "choose/speed.md" {
			t.Error("targets are the maintainers'")
		}
		if strings.HasSuffix(name, ".svg") {
			continue
		}
		if strings.Contains(string(text), "\n\n\n") || strings.HasSuffix(string(text), "\n\n") || !strings.HasSuffix(string(text), "\n") {
			t.Errorf("%s has two blank lines, or no end of its last line", name)
		}
	}
	check.Equal(t, "pages of a run without profiles", len(must.Get(pages(parsed(t, output)))(t)), 3)
}

func TestTheShortTable(t *testing.T) {
	t.Parallel()
	all := parsed(t, `peer: weblimit|w|v1|x|false
peer: ulule|u|v1|x|false
BenchmarkRedis/weblimit/1-key/256/allow-2 10 2000 ns/op
BenchmarkRedis/ulule/1-key/256/allow-2 10 5000 ns/op
BenchmarkMemory/weblimit/100k-keys-2 10 150 ns/op
`)
	check.Contains(t, "the table", all.short(), "| Redis, one key, 256 callers | 500,000 checks/s | – | 2.50× | – | – |\n| in memory, 100,000 keys | 150 ns | – | – | – | – |\n")
}

// The pages in docs are written by the texts of today, also where nothing was measured anew.
func TestThePagesHaveTheirTexts(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		text := string(must.Get(texts.ReadFile("pages/" + place.text))(t))
		page := "\n" + string(must.Get(os.ReadFile("../../docs/"+place.page))(t))
		for line := range strings.Lines(text) {
			if !strings.Contains(line, "{{") && !strings.Contains(page, "\n"+line) {
				t.Errorf("docs/%s lacks the line %q of its text", place.page, line)
			}
		}
	}
}

func TestBehindListsWhoIsFaster(t *testing.T) {
	t.Parallel()
	all := parsed(t, `peer: weblimit|w|v1|x|false
peer: quick|q|v1|x|false
peer: same|s|v1|x|false
BenchmarkMemory/weblimit/1-key-2 10 100 ns/op
BenchmarkMemory/quick/1-key-2 10 50 ns/op
BenchmarkMemory/same/1-key-2 10 98 ns/op
`)
	check.Equal(t, "behind", all.behind(), "- Memory, 1 key: quick 2.00×\n")
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.44: "0.4", 7: "7", 9.25: "9.2", 74.6: "75", 999: "999", 1234: "1,230", 98_765: "98,800", 1_234_567: "1,230,000",
	} {
		check.Equal(t, fmt.Sprint("thousands of ", v), thousands(v), want)
	}
	for v, want := range map[float64]string{0.4: "0.4", 54.32: "54.3", 1234: "1,230"} {
		check.Equal(t, fmt.Sprint("micros of ", v), micros(v), want)
	}
	for v, want := range map[float64]string{0.5: "0.50×", 1.234: "1.23×", 12.3: "12×"} {
		check.Equal(t, fmt.Sprint("times of ", v), times(v), want)
	}
}
