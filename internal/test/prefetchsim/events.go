package prefetchsim

// The timers of a simulation.

import "container/heap"

// events holds what is planned for later, in the order of time and then of planning.
type events struct {
	queue []*event // a heap
	count int64    // of all that were ever planned
}

type event struct {
	at      int64 // nanoseconds of the simulation
	number  int64
	do      func()
	stopped bool
}

func (e *events) plan(at int64, do func()) *event {
	e.count++
	ev := &event{at: at, number: e.count, do: do}
	heap.Push(e, ev)
	return ev
}

// runUntil runs what is due up to a time. It calls moveTo before each event.
func (e *events) runUntil(at int64, moveTo func(int64)) {
	for len(e.queue) > 0 && e.queue[0].at <= at {
		ev := heap.Pop(e).(*event)
		moveTo(ev.at)
		if !ev.stopped {
			ev.do()
		}
	}
}

func (e *events) Len() int { return len(e.queue) }

func (e *events) Less(i, j int) bool {
	a, b := e.queue[i], e.queue[j]
	return a.at < b.at || a.at == b.at && a.number < b.number
}

func (e *events) Swap(i, j int) { e.queue[i], e.queue[j] = e.queue[j], e.queue[i] }

func (e *events) Push(x any) { e.queue = append(e.queue, x.(*event)) }

func (e *events) Pop() any {
	last := e.queue[len(e.queue)-1]
	e.queue = e.queue[:len(e.queue)-1]
	return last
}
