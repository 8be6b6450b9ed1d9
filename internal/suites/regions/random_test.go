package regions

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestRandomFaults has random faults happen to worlds, several at a time and one after the other, for as long as -for says.
func TestRandomFaults(t *testing.T) {
	if *duration == 0 {
		t.Skip("make regions FOR=10m; each fault alone is in TestFaults")
	}
	first, until := seed(), time.Now().Add(*duration)
	const lanes = 2 // worlds at a time
	for lane := range lanes {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			for n := first + uint64(lane); time.Now().Before(until) && !t.Failed(); n += lanes {
				t.Run(fmt.Sprint("seed ", n), func(t *testing.T) { randomWorld(t, n) })
			}
		})
	}
}

// randomWorld has a dozen faults happen to one world. A fault lasts while others begin, unless they harm the same.
func randomWorld(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	n := needs{apart: r.IntN(3) > 0, clocks: r.IntN(3) == 0}
	n.keeps = !n.clocks && r.IntN(2) == 0
	w := newWorld(t, seed, n)
	began := time.Now().UnixNano()
	w.grants(began, w.regions...)
	heals := make(map[string]func()) // by what they harm
	for happened := 0; happened < 12; {
		f := &faults[r.IntN(len(faults))]
		if f.harms == "" || !f.needs.metBy(n) {
			continue
		}
		if heal := heals[f.harms]; heal != nil {
			w.note("it ends: what harms %s", f.harms)
			heal()
			delete(heals, f.harms)
			continue
		}
		happened++
		w.note("%s", f.name)
		heals[f.harms], _ = f.begin(w)
		w.passes(1 + r.IntN(3))
	}
	for _, heal := range heals {
		heal()
	}
	w.note("all is well")
	w.grants(time.Now().UnixNano(), w.regions...)
	w.finish()
	w.judge()
	w.report([]phase{{"all", began, time.Now().UnixNano()}})
}

// metBy reports whether a world has what a fault needs. A home that keeps its data can't be emptied.
func (n needs) metBy(has needs) bool {
	return n.most <= regionsOf && (has.apart || !n.apart) && (has.clocks || !n.clocks) && (n.keeps == has.keeps || !n.apart)
}
