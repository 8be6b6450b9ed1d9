package regions

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

// fault is something that happens to a world.
type fault struct {
	name  string
	harms string // what it harms; empty if it is not one of several faults at a time
	needs needs
	lasts int // windows

	// begin has it happen, and returns what ends it and the regions that it has cut off from home.
	begin func(w *world) (heal func(), cut []*region)
}

// nothing ends a fault that is over at once.
func nothing() {}

var faults = []fault{
	{name: "nothing happens", lasts: 2, begin: func(*world) (func(), []*region) { return nothing, nil }},
	{name: "a region is cut off", harms: "links", lasts: 2, begin: func(w *world) (func(), []*region) {
		r := w.away()
		r.proxy.Blackhole(true)
		return func() { r.proxy.Blackhole(false) }, []*region{r}
	}},
	{name: "answers to a region are lost", harms: "links", lasts: 2, begin: func(w *world) (func(), []*region) {
		r := w.away()
		r.proxy.Delay(time.Hour)
		return func() { r.proxy.Delay(usualDelay) }, []*region{r}
	}},
	{name: "answers to a region are cut", harms: "links", lasts: 2, begin: func(w *world) (func(), []*region) {
		r := w.away()
		r.proxy.Match("eval") // of scripts, so that connections can be made
		r.proxy.CutReplies(1 << 30)
		return func() { r.proxy.CutReplies(0) }, []*region{r}
	}},
	{name: "links are slow", harms: "links", lasts: 2, begin: func(w *world) (func(), []*region) {
		w.delays(250 * time.Millisecond)
		return func() { w.delays(usualDelay) }, nil
	}},
	{name: "home is killed and comes back with its data", harms: "home", needs: needs{apart: true, keeps: true}, lasts: 2, begin: func(w *world) (func(), []*region) {
		w.home.Kill()
		return func() { w.home.Restart(w.t) }, w.regions
	}},
	{name: "home is killed and comes back empty", harms: "home", needs: needs{apart: true}, lasts: 1, begin: func(w *world) (func(), []*region) {
		began := time.Now().UnixNano()
		w.home.Kill()
		return func() {
			w.forgetSaved()
			w.home.Restart(w.t)
			w.losses = append(w.losses, loss{began: began, at: time.Now().UnixNano()})
		}, w.regions
	}},
	{name: "an older replica of home takes over", harms: "home", needs: needs{apart: true}, lasts: 1, begin: func(w *world) (func(), []*region) {
		since := time.Now().UnixNano()
		must.OK(w.t, w.home.Client(w.t).Save(w.t.Context()).Err())
		time.Sleep(w.order.Window / 2) // what is leased meanwhile the replica has not heard of
		w.loses(nil, since, func() { w.home.Restart(w.t) })
		return nothing, nil
	}},
	{name: "the Redis of a region is emptied", harms: "a region", lasts: 1, begin: func(w *world) (func(), []*region) {
		r := w.away()
		w.loses(r, 0, func() { r.server.Restart(w.t) })
		return nothing, nil
	}},
	{name: "the Redis of a region stands still where windows end", harms: "a region", lasts: 1, begin: func(w *world) (func(), []*region) {
		r := w.away()
		for range 3 {
			w.beforeEdge(100 * time.Millisecond) // requests that it has been sent it decides in the next window
			r.server.Freeze(w.t)
			time.Sleep(200 * time.Millisecond)
			r.server.Thaw(w.t)
		}
		return nothing, nil
	}},
	{name: "processes are killed", harms: "processes", lasts: 2, begin: func(w *world) (func(), []*region) {
		for _, r := range w.regions {
			w.replace(r.processes[0], true)
		}
		return nothing, nil
	}},
	{name: "processes are stopped for longer than a window", harms: "the scheduler", lasts: 2, begin: func(w *world) (func(), []*region) {
		return w.stop(append(w.regions[0].processes[:1:1], w.regions[1].processes...)...), nil
	}},
	{name: "the clock of a region is wrong", harms: "a clock", needs: needs{clocks: true}, lasts: 1, begin: func(w *world) (func(), []*region) {
		r := w.away()
		return w.wrong(r), nil
	}},
	{name: "the clock of a region steps back", harms: "a clock", needs: needs{clocks: true}, lasts: 1, begin: func(w *world) (func(), []*region) {
		r := w.away()
		return w.stepsBack(r), nil
	}},
	{name: "the clock of home steps back", harms: "home's clock", needs: needs{clocks: true, apart: true}, lasts: 1, begin: func(w *world) (func(), []*region) {
		return w.stepsBack(nil), nil
	}},
	{name: "the clock of home is wrong", harms: "home's clock", needs: needs{clocks: true, apart: true}, lasts: 1, begin: func(w *world) (func(), []*region) {
		return w.wrong(nil), nil
	}},
	{name: "a region is added and another one leaves", needs: needs{most: regionsOf + 1}, lasts: 1, begin: func(w *world) (func(), []*region) {
		added := w.addRegion(needs{})
		began := time.Now().UnixNano()
		for range processesOf {
			w.start(added)
		}
		w.grants(began, added)
		w.end(w.regions[1])
		return func() {
			for range processesOf {
				w.start(w.regions[1])
			}
		}, nil
	}},
	{name: "the number of regions is raised, then one is added", lasts: 1, begin: func(w *world) (func(), []*region) {
		began := time.Now().UnixNano()
		w.order.Regions++
		for _, r := range w.regions {
			for _, p := range slices.Clone(r.processes) {
				w.replace(p, false)
			}
		}
		w.rolled = append(w.rolled, [2]int64{began, time.Now().UnixNano()})
		w.passes(2) // so that no floor of before counts any more
		return func() {
			added := w.addRegion(needs{})
			for range processesOf {
				w.start(added)
			}
		}, nil
	}},
}

// beforeEdge returns some time before the present window ends, or the next one.
func (w *world) beforeEdge(d time.Duration) {
	next := time.Now().Add(d).Truncate(w.order.Window).Add(w.order.Window)
	time.Sleep(time.Until(next.Add(-d))) // nothing happens when a window ends
}

// delays sets how long answers from home take.
func (w *world) delays(d time.Duration) {
	for _, r := range w.regions {
		if r.proxy != nil {
			r.proxy.Delay(d)
		}
	}
}

// wrong sets the clock of a region, or home's if r is nil: minutes ahead, then it drifts, then back behind all others. The
// function that it returns sets it right.
func (w *world) wrong(r *region) (right func()) {
	w.t.Helper()
	ahead, minutes := time.Duration(0), 3*time.Minute
	set := func(to time.Duration) {
		w.turn(r, ahead, to)
		ahead = to
	}
	set(minutes)
	for range 20 {
		time.Sleep(20 * time.Millisecond) // a clock that runs half as fast again
		set(ahead + 10*time.Millisecond)
	}
	set(-minutes / 2)
	return func() { set(0) }
}

// stepsBack sets the clock of a region, or home's if r is nil, ahead by some windows, and then back by a part of one again and
// again, so that windows come twice. The function that it returns sets it right.
func (w *world) stepsBack(r *region) (right func()) {
	w.t.Helper()
	ahead := 5 * w.order.Window / 2
	w.turn(r, 0, ahead)
	w.passes(1)
	for range 4 {
		w.turn(r, ahead, ahead-w.order.Window/2)
		ahead -= w.order.Window / 2
		time.Sleep(w.order.Window / 4) // the window is to go on meanwhile
	}
	return func() { w.turn(r, ahead, 0) }
}

// away returns a region that is not home's.
func (w *world) away() *region {
	for {
		if r := w.regions[w.random.IntN(len(w.regions))]; r.proxy != nil {
			return r
		}
	}
}

// TestFaults has one fault happen to each world: before, meanwhile and afterwards no key is granted more than the bound,
// and afterwards all regions are granted what there is.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed(), f.needs)
			w.suffers(&f)
		})
	}
}

// suffers has a fault happen to a world, and judges it.
func (w *world) suffers(f *fault) {
	w.t.Helper()
	began := time.Now().UnixNano()
	w.grants(began, w.regions...)
	before := time.Now().UnixNano()
	w.note("%s", f.name)
	heal, cut := f.begin(w)
	hit := time.Now().UnixNano()
	w.passes(f.lasts)
	w.note("it ends")
	ends := time.Now().UnixNano()
	heal()
	healed := time.Now().UnixNano()
	w.grants(healed, w.regions...)
	again := time.Now().UnixNano()
	w.finish()
	w.judge()
	w.judgeCut(cut, hit, ends)
	w.report([]phase{{"before", began, before}, {"meanwhile", hit, ends}, {"until all grant again", healed, again}})
}

// judgeCut checks that regions which could not reach home from one time to another have granted their floors, and no more, in
// windows that began after the first.
func (w *world) judgeCut(cut []*region, from, until int64) {
	w.t.Helper()
	for of, s := range w.windows(0) {
		begins, ends := w.order.span(of.limit, of.window)
		if of.limit != fixed && of.limit != overdrawn || begins < from/1000 || ends > until/1000 {
			continue
		}
		for _, r := range cut {
			if most := w.order.floor(of.limit, w.order.Regions) + w.order.overdraft(of.limit); s.granted[r] > most {
				w.fail(w.name(of)+fmt.Sprint(r), "%v was cut off, and has granted %d units; its floor is %d", r, s.granted[r], most)
			}
		}
	}
}
