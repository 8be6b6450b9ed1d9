package prove

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

var (
	duration = flag.Duration("for", 3*time.Second, "how long to make histories, of all kinds together")
	oneSeed  = flag.Uint64("seed", 0, "make the history of this seed only, a hundred times")
	first    = flag.Uint64("first", 0, "the first seed; 0 takes one from the clock")
	pictures = flag.String("pictures", "", "where pictures of histories that fail go; the directory for temporary files by default")
	mutate   = flag.String("mutations", "", "break the code on purpose, and write what became of it to docs/maintain/proof.md: 1 for all mistakes, or a regexp of what is wrong")
	alone    = flag.Bool("alone", false, "each kind of histories has all of the time")
)

// patience is how long a test waits for something that must happen, on the busiest machine.
const patience = 3 * time.Minute

// both stops the servers of PostgreSQL and Redis after the tests.
type both struct{ m *testing.M }

func (b both) Run() int { return redistest.Main(b.m) }

func TestMain(m *testing.M) {
	flag.Parse()
	code := pgtest.Main(both{m})
	if *mutate == "" {
		fmt.Print(summary())
	}
	os.Exit(code)
}

// tallies is what was counted, by kind of history.
var tallies = struct {
	sync.Mutex
	by map[string]*tally
}{by: map[string]*tally{}}

func counted(kind string, t *tally) {
	tallies.Lock()
	defer tallies.Unlock()
	tallies.by[kind] = t
}

// summary prints what was counted.
func summary() string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\thistories\toperations\tclients checked\terrors\tunknown outcomes\tchecks timed out\tfaults")
	sum := &tally{}
	row := func(kind string, t *tally) {
		var events []string
		for _, what := range slices.Sorted(maps.Keys(t.Events)) {
			events = append(events, fmt.Sprintf("%s %d", what, t.Events[what]))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", kind, t.Histories, t.Operations, t.Clients, t.Errors, t.Unknown, t.TimedOut, strings.Join(events, ", "))
	}
	for _, kind := range slices.Sorted(maps.Keys(tallies.by)) {
		row(kind, tallies.by[kind])
		sum.add(tallies.by[kind])
	}
	row("all", sum)
	_ = w.Flush()
	return s.String()
}

// each makes histories of a kind for its share of the time, and checks them.
func each(t *testing.T, share float64, one func(seed uint64, count *tally) *history) {
	t.Helper()
	count := &tally{}
	defer counted(strings.TrimPrefix(t.Name(), "Test"), count)
	seed := *first
	if seed == 0 {
		seed = uint64(time.Now().UnixMicro()) % 1e9
	}
	t.Logf("seeds from %d on", seed)
	if *mutate != "" {
		t.Skip("-mutations makes its own")
	}
	if *alone {
		share = 1
	}
	deadline := time.Now().Add(time.Duration(float64(*duration) * share))
	for n := 0; n == 0 || time.Now().Before(deadline); n++ {
		if *oneSeed != 0 {
			if seed = *oneSeed; n == 100 {
				break
			}
		}
		h := one(seed, count)
		if t.Failed() {
			count.Histories++
			return
		}
		if h.check(t, count); t.Failed() {
			return
		}
		seed++
	}
}
