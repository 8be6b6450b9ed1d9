package line

import (
	"math/rand/v2"
	"testing"

	"github.com/weblimit/weblimit/internal/test/long"
)

// Whatever is done with a line, its counts are right, it forgets whoever has left, and it serves all.
func TestALineIsConsistent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Rounds(20, 2000)) {
		random := rand.New(rand.NewPCG(seed, 3))
		l := new(Line)
		var waits, calls []*Place
		var rests []Resting
		take := func(from *[]*Place) *Place {
			i := random.IntN(len(*from))
			p := (*from)[i]
			(*from)[i] = (*from)[len(*from)-1]
			*from = (*from)[:len(*from)-1]
			return p
		}
		for range 2000 {
			switch what := random.IntN(10); {
			case what < 4:
				p := new(Place)
				client := uint64(1 + random.IntN(9))
				displaced, ok := l.Join(p, Request{
					Class: random.IntN(3), Client: client, User: client % 2 * uint64(1+random.IntN(3)),
					Weight: 1 + random.Int64N(3), Cost: random.Int64N(5),
				}, Bounds{Full: l.Len() >= 50, PerClient: 20})
				for i := range waits {
					if waits[i] == displaced {
						waits[i] = p
					}
				}
				if ok && displaced == nil {
					waits = append(waits, p)
				}
			case what < 6:
				first := l.First()
				if p := l.Next(); p != nil {
					if p != first {
						t.Fatal("First is not Next")
					}
					for i := range waits {
						if waits[i] == p {
							waits[i] = waits[len(waits)-1]
							waits = waits[:len(waits)-1]
							break
						}
					}
					calls = append(calls, p)
				}
			case what < 7 && len(calls) > 0:
				l.Served(take(&calls))
			case what < 8 && len(calls) > 0:
				p := take(&calls)
				if l.Return(p); random.IntN(2) == 0 {
					if r, ok := l.Rest(p, random.IntN(2) == 0); ok {
						rests = append(rests, r)
					}
				}
				waits = append(waits, p)
			case what < 9 && len(waits) > 0:
				l.Leave(take(&waits))
			case what < 10 && len(calls) > 0 && random.IntN(3) == 0:
				l.Leave(take(&calls))
			case len(rests) > 0:
				l.Wake(rests[0])
				rests = rests[1:]
			}
			consistent(t, l, len(waits), len(calls))
		}
		for _, r := range rests {
			l.Wake(r)
		}
		for _, p := range calls {
			l.Return(p)
		}
		for p := l.Next(); p != nil; p = l.Next() {
			l.Served(p)
		}
		consistent(t, l, 0, 0)
	}
}

// consistent checks what a line has of so many places.
func consistent(t *testing.T, l *Line, waits, calls int) {
	t.Helper()
	var waiting, called, present, weights int64
	for _, c := range l.classes {
		w, n := counts(t, &c.turns)
		if w != c.waiting {
			t.Fatalf("a class has %d waiting places, and counts %d", w, c.waiting)
		}
		waiting, called = waiting+w, called+n
	}
	for i, h := range l.holders.most.all {
		present, weights = present+h.places, weights+h.weight
		if h.at != i || h.places < 1 || l.holders.known[h.id] != h || i > 0 && h.before(l.holders.most.all[(i-1)/2]) {
			t.Fatal("the holders are in disorder")
		}
	}
	if waiting != int64(waits) || called != int64(calls) || present != l.places || l.places != waiting+called || weights != l.holders.weight || len(l.holders.known) != len(l.holders.most.all) {
		t.Fatalf("%d wait, %d are called, %d of the holders, %d in all; want %d and %d", waiting, called, present, l.places, waits, calls)
	}
}

// counts checks flows, and returns how many places they have.
func counts(t *testing.T, u *turns) (waiting, called int64) {
	t.Helper()
	var weight int64
	for id, f := range u.known {
		if f.id != id || f.in != nil && f.in.all[f.at] != f || int64(len(f.credits)) > f.waiting {
			t.Fatal("a flow is not where it belongs")
		}
		if f.waiting+f.called > 0 {
			weight += f.counted
		} else if f.in != &u.absent || !u.now.before(f.next) {
			t.Fatal("a flow is remembered for nothing")
		}
		if f.inner != nil {
			if w, n := counts(t, f.inner); w != f.waiting || n != f.called {
				t.Fatal("a client's places are not those of its users")
			}
		} else {
			w := int64(0)
			for p := f.first; p != nil; p = p.after {
				if w++; p.after != nil && (p.after.before != p || p.after.number < p.number) || p.after == nil && f.last != p || !p.Waits() {
					t.Fatal("a list is in disorder")
				}
			}
			if w != f.waiting {
				t.Fatalf("%d of %d places are listed", w, f.waiting)
			}
		}
		if ready := f.waiting > 0 && !f.resting && (f.inner == nil || len(f.inner.ready.all) > 0); ready != (f.in == &u.ready) {
			t.Fatal("a flow is not ready when it should be")
		}
		waiting, called = waiting+f.waiting, called+f.called
	}
	if weight != u.weight {
		t.Fatalf("flows weigh %d, and count %d", weight, u.weight)
	}
	return waiting, called
}
