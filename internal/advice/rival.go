package advice

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/weblimit/weblimit/core/store"
)

// Two applications with one Redis, one prefix and one name of a limit count in the same buckets, each by
// its own numbers, and neither knows. So each process writes the numbers of its limits down every few
// minutes, and reads what was there. Where a process finds other numbers than it has written again and
// again, another process goes on with those. In a rolling update both are there, too, but not for long.

const (
	// rivalsEvery is the time from one comparison to the next, up to half of it more, so that processes
	// take turns. A process that ends before has written nothing.
	rivalsEvery = 4 * time.Minute

	// rivalsSeen is how often other numbers must be found where this process has written its own. So
	// nothing is said of two that run side by side for less than rivalsEvery times this number.
	rivalsSeen = 3

	// rivalsKept is how long numbers are kept, and a finding counts.
	rivalsKept = 30 * time.Minute

	// rivalsMost bounds the limits that are compared, the first by name, and rivalsAtOnce those of
	// one call.
	rivalsMost   = 1000
	rivalsAtOnce = 100

	// rivalsTimeout bounds a call.
	rivalsTimeout = time.Second

	// rivalsLength bounds what is shown of numbers that others have written.
	rivalsLength = 200
)

// Rivals compares the limits of a store with those of other processes.
type Rivals struct {
	registry *store.Registry
	began    atomic.Bool

	mu       sync.Mutex
	advisors []weak.Pointer[Advisor] // of limiters that have limits of the store. Guarded by mu.
	full     int                     // how long advisors becomes before those that are gone are removed. Guarded by mu.

	known map[string]rival // by the key of the numbers; of the goroutine that compares
}

// NewRivals returns the Rivals of a store, one for all limiters on it. It compares nothing before the store answers.
func NewRivals(r *store.Registry) *Rivals { return &Rivals{registry: r} }

// rival is what is known of the numbers under one key.
type rival struct {
	wrote string // by this process
	seen  int    // how often others were there instead
	last  time.Time
}

// know adds the advisor of a limiter, which is to give advice on its limits.
func (v *Rivals) know(a *Advisor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.advisors) >= v.full {
		kept := v.advisors[:0]
		for _, p := range v.advisors {
			if p.Value() != nil {
				kept = append(kept, p)
			}
		}
		clear(v.advisors[len(kept):])
		v.advisors, v.full = kept, 2*len(kept)+8
	}
	v.advisors = append(v.advisors, weak.Make(a))
}

// begin begins to compare, if the store can, and nobody has begun. The first comparison is one
// of later: what ends soon says nothing.
func (v *Rivals) begin() {
	if v.began.Load() || v.began.Swap(true) {
		return
	}
	if v.registry.Server().Swap != nil {
		v.known = make(map[string]rival)
		compareAgain(weak.Make(v))
	}
}

// compareAgain has a timer compare. The timer holds what the limiters share weakly, so that a store that
// nobody uses any more is garbage.
func compareAgain(held weak.Pointer[Rivals]) {
	time.AfterFunc(rivalsEvery+rand.N(rivalsEvery/2), func() { //nolint:gosec // G404: spreads processes, hides nothing
		if v := held.Value(); v != nil && v.compare() {
			compareAgain(held)
		}
	})
}

// compare compares all limits once. It returns false if that can't be done again.
func (v *Rivals) compare() bool {
	swap, all := v.registry.Server().Swap, v.registry.Declarations()
	all = all[:min(len(all), rivalsMost)]
	known := make(map[string]rival, len(all))
	for len(all) > 0 {
		some := all[:min(len(all), rivalsAtOnce)]
		all = all[len(some):]
		keys, values := make([]string, len(some)), make([]string, len(some))
		for i := range some {
			keys[i], values[i] = rivalKey(&some[i]), some[i].InWords()
		}
		ctx, cancel := context.WithTimeout(context.Background(), rivalsTimeout)
		before, err := swap(ctx, keys, values, rivalsKept)
		cancel()
		if err != nil || len(before) != len(some) {
			failed := store.ErrorOf(err) // what is known stays: the next comparison goes on from there
			return failed == nil || failed.Class != store.ClassClosed
		}
		for i := range some {
			r := v.known[keys[i]].after(values[i], before[i], time.Now())
			if known[keys[i]] = r; r.seen >= rivalsSeen {
				v.say(&some[i], before[i])
			}
		}
	}
	v.known = known
	return true
}

// after returns what is known after a process whose numbers are mine has found others, or none.
func (r rival) after(mine, found string, now time.Time) rival {
	if r.wrote != mine { // this is the first time, or the limit has changed: what is there may be older
		return rival{wrote: mine, last: now}
	}
	switch {
	case found != "" && found != mine:
		r.seen, r.last = r.seen+1, now
	case now.Sub(r.last) > rivalsKept:
		r.seen = 0
	}
	return r
}

// rivalKey is the key under which the numbers of a limit are. Limits whose keys are of other kinds never
// count in one bucket, so their numbers may differ.
func rivalKey(d *store.Declaration) string {
	sum := sha256.Sum256([]byte(d.Rule.Name + "\x00" + d.Keys))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// say has the limiters with this limit say that another process has other numbers.
func (v *Rivals) say(d *store.Declaration, theirs string) {
	v.mu.Lock()
	advisors := slices.Clone(v.advisors) // know moves those that are left
	v.mu.Unlock()
	if len(theirs) > rivalsLength {
		theirs = theirs[:rivalsLength] + "…"
	}
	problem := fmt.Sprintf("limit %s: other processes have a limit of this name with other numbers in the same store, so both count in the same buckets: here %s, there %q; give each application its own Prefix (pgstore: Schema), or the limits different names", d.Rule.Name, d.InWords(), theirs)
	for _, p := range advisors {
		if a := p.Value(); a != nil && a.has(d.Rule.Name) {
			a.sayOf(d.Rule.Name, Rival, problem)
		}
	}
}
