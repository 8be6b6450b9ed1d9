package line

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

// join adds a request with a name to a line that has room.
func join(t testing.TB, l *Line, name string, r Request) *Place {
	t.Helper()
	p := &Place{Data: name}
	if displaced, ok := l.Join(p, r, Bounds{}); displaced != nil || !ok {
		t.Fatalf("%s finds no place", name)
	}
	return p
}

// serve serves n requests, or all for -1, and returns their names.
func serve(l *Line, n int) string {
	var names []string
	for ; n != 0; n-- {
		p := l.Next()
		if p == nil {
			break
		}
		names = append(names, p.Data.(string))
		l.Served(p)
	}
	return strings.Join(names, " ")
}

func TestClientsTakeTurnsByWeight(t *testing.T) {
	t.Parallel()
	l := new(Line)
	for i := range 6 {
		join(t, l, fmt.Sprint("a", i), Request{Client: 1, Weight: 1, Cost: 1})
	}
	for i := range 6 {
		join(t, l, fmt.Sprint("b", i), Request{Client: 2, Weight: 2, Cost: 1})
	}
	check.Equal(t, "served", serve(l, -1), "a0 b0 b1 a1 b2 b3 a2 b4 b5 a3 a4 a5")
	check.Equal(t, "places", l.Len(), 0)
}

func TestCostsCount(t *testing.T) {
	t.Parallel()
	l := new(Line)
	for i := range 3 {
		join(t, l, fmt.Sprint("a", i), Request{Client: 1, Weight: 1, Cost: 3})
	}
	for i := range 9 {
		join(t, l, fmt.Sprint("b", i), Request{Client: 2, Weight: 1, Cost: 1})
	}
	check.Equal(t, "served", serve(l, -1), "a0 b0 b1 b2 a1 b3 b4 b5 a2 b6 b7 b8")
}

func TestUsersTakeTurnsWithinTheirClient(t *testing.T) {
	t.Parallel()
	l := new(Line)
	for i := range 4 {
		join(t, l, fmt.Sprint("a", i), Request{Client: 1, User: 1, Cost: 1})
	}
	join(t, l, "b0", Request{Client: 1, User: 2, Cost: 1})
	for i := range 3 {
		join(t, l, fmt.Sprint("c", i), Request{Client: 2, User: 1, Cost: 1})
	}
	check.Equal(t, "served", serve(l, -1), "a0 c0 b0 c1 a1 c2 a2 a3")
}

// Trap: whoever hangs up and comes again is new each time.
func TestLeavingWinsNoPlace(t *testing.T) {
	t.Parallel()
	l := new(Line)
	join(t, l, "m0", Request{Client: 1, Cost: 1})
	join(t, l, "a0", Request{Client: 2, Cost: 1})
	join(t, l, "b0", Request{Client: 3, Cost: 1})
	check.Equal(t, "first", serve(l, 1), "m0")
	for range 100 {
		l.Leave(join(t, l, "m", Request{Client: 1, Cost: 1}))
	}
	join(t, l, "m1", Request{Client: 1, Cost: 1})
	check.Equal(t, "then", serve(l, -1), "a0 b0 m1")
}

// Trap: clients that come again and again under new names.
func TestNewClientsDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	l := new(Line)
	for i := range 10 {
		join(t, l, fmt.Sprint("n", i), Request{Client: uint64(100 + i), Cost: 1})
	}
	join(t, l, "m0", Request{Client: 1, Cost: 1})
	join(t, l, "m1", Request{Client: 1, Cost: 1})
	for i := range 1000 {
		if name := serve(l, 1); name == "m1" {
			check.Equal(t, "served after at most", i <= 3*12, true)
			return
		}
		join(t, l, "n", Request{Client: uint64(200 + i), Cost: 1})
	}
	t.Error("m1 is never served")
}

func TestReturnedRequestsAreNextAgain(t *testing.T) {
	t.Parallel()
	l := new(Line)
	for i := range 3 {
		join(t, l, fmt.Sprint("a", i), Request{Client: 1, Cost: 1})
		join(t, l, fmt.Sprint("b", i), Request{Client: 2, Cost: 1})
	}
	called := []*Place{l.Next(), l.Next(), l.Next()} // a0 b0 a1
	for _, p := range []*Place{called[2], called[0], called[1]} {
		l.Return(p)
	}
	check.Equal(t, "served", serve(l, -1), "a0 b0 a1 b1 a2 b2")
}

func TestHigherClassesComeFirstAndLowerOnesAreNotForgotten(t *testing.T) {
	t.Parallel()
	l := new(Line)
	for i := range 3 {
		join(t, l, fmt.Sprint("low", i), Request{Class: 2, Client: 1, Cost: 1})
		join(t, l, fmt.Sprint("middle", i), Request{Class: 1, Client: 1, Cost: 1})
	}
	for range 40 {
		join(t, l, "h", Request{Class: 0, Client: 1, Cost: 1})
	}
	served := strings.Fields(serve(l, 40))
	for i, want := range []string{"middle0", "low0", "middle1", "low1", "middle2"} {
		check.Equal(t, want, slices.Index(served, want), 8*i+7)
	}
}

func TestTheFullLineIsShared(t *testing.T) {
	t.Parallel()
	l := new(Line)
	for i := range 8 {
		join(t, l, fmt.Sprint("m", i), Request{Client: 1, User: uint64(1 + i/6), Cost: 1})
	}
	full := Bounds{Full: true}
	for _, tt := range []struct {
		r    Request
		want any // who loses its place; nil if the newcomer finds none
	}{
		{Request{Client: 1, User: 1, Cost: 1}, nil},
		{Request{Client: 1, User: 2, Cost: 1}, "m5"},
		{Request{Client: 2, Cost: 1}, "m4"},
		{Request{Client: 2, Cost: 1}, "m3"},
		{Request{Client: 2, Cost: 1}, "m2"},
		{Request{Client: 2, Cost: 1}, "new"}, // of user 2
		{Request{Client: 2, Cost: 1}, nil},
		{Request{Client: 3, Weight: 8, Cost: 1}, "m7"},
	} {
		displaced, ok := l.Join(&Place{Data: "new"}, tt.r, full)
		var got any
		if displaced != nil {
			got = displaced.Data
		}
		check.All(t, fmt.Sprint(tt.r), []any{ok, got, l.Len()}, tt.want != nil, tt.want, int64(8))
	}
}

// What a client got counts when it comes again, also if it had no place in between.
func TestWhatWasServedCounts(t *testing.T) {
	t.Parallel()
	l := new(Line)
	join(t, l, "m0", Request{Client: 1, Cost: 5})
	for i := range 7 {
		join(t, l, fmt.Sprint("a", i), Request{Client: 2, Cost: 1})
	}
	check.Equal(t, "first", serve(l, 1), "m0")
	join(t, l, "m1", Request{Client: 1, Cost: 5})
	check.Equal(t, "then", serve(l, -1), "a0 a1 a2 a3 a4 m1 a5 a6")
}

// Trap: a request that was called and hangs up puts its client in front of those that came in between.
func TestACalledRequestThatLeavesWinsNothing(t *testing.T) {
	t.Parallel()
	l := new(Line)
	join(t, l, "m0", Request{Client: 1, Cost: 1})
	join(t, l, "m1", Request{Client: 1, Cost: 1})
	for i, name := range []string{"x", "y", "z"} {
		join(t, l, name, Request{Client: uint64(2 + i), Cost: 1})
	}
	called := l.Next()
	check.Equal(t, "then", serve(l, 1), "x")
	join(t, l, "d", Request{Client: 9, Cost: 1})
	check.Equal(t, "then", serve(l, 1), "y")
	l.Leave(called)
	check.Equal(t, "the rest", serve(l, -1), "z d m1")
}

// Trap: a cheap request returns and leaves, and an expensive one is charged as little.
func TestWhatIsCalledInPlaceOfAnotherIsCharged(t *testing.T) {
	t.Parallel()
	l := new(Line)
	cheap := join(t, l, "m0", Request{Client: 1, Cost: 1})
	join(t, l, "m1", Request{Client: 1, Cost: 5})
	join(t, l, "m2", Request{Client: 1, Cost: 1})
	for i := range 6 {
		join(t, l, fmt.Sprint("b", i), Request{Client: 2, Cost: 1})
	}
	l.Return(l.Next())
	l.Leave(cheap)
	check.Equal(t, "served", serve(l, -1), "m1 b0 b1 b2 b3 b4 m2 b5")
}

func TestALowerClassThatFindsNoRoomComesAgainSoon(t *testing.T) {
	t.Parallel()
	l := new(Line)
	for range 20 {
		join(t, l, "h", Request{Client: 1, Cost: 1})
	}
	join(t, l, "low", Request{Class: 1, Client: 1, Cost: 1})
	serve(l, 7)
	low := l.Next()
	check.All(t, "the eighth, and whether it was in front of a higher class", []any{low.Data, l.Return(low)}, "low", true)
	check.Equal(t, "then", serve(l, 2), "h low")
}

func TestAFewPlacesOfALowerClassAreLeft(t *testing.T) {
	t.Parallel()
	for low, want := range map[int]bool{1: false, 2: false, 3: true} { // of 16, an eighth
		l := new(Line)
		for i := range 16 {
			class := 0
			if i < low {
				class = 1
			}
			join(t, l, "x", Request{Class: class, Client: uint64(i), Cost: 1})
		}
		_, ok := l.Join(new(Place), Request{Client: 99, Weight: 2, Cost: 1}, Bounds{Full: true})
		check.Equal(t, fmt.Sprint("a higher class takes one of ", low), ok, want)
	}
}

// Trap: whoever was served is remembered for ever.
func TestALineRemembersSoMany(t *testing.T) {
	t.Parallel()
	l := new(Line)
	for i := range 3 { // they stay, so that the others are remembered for long
		join(t, l, "", Request{Client: uint64(1 + i), Weight: 1000, Cost: 1})
		l.Next()
	}
	for i := range 5000 {
		join(t, l, "", Request{Client: uint64(9 + i), Cost: 100})
		serve(l, 1)
	}
	check.Equal(t, "remembered, and those that stay", remembered(l), maxAbsent+2*3)
}
