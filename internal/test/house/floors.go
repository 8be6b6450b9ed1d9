package main

import (
	"maps"
	"slices"
)

// upward returns how many arrows run upward in the order of files in which it finds fewest.
func upward(targets map[string][]string) int {
	g := newGraph(targets)
	return g.backward(g.settled(g.greedy()))
}

// graph is files by number, in the order of their names.
type graph struct {
	to [][]bool
}

func newGraph(targets map[string][]string) graph {
	names := slices.Sorted(maps.Keys(targets))
	g := graph{make([][]bool, len(names))}
	for i, name := range names {
		g.to[i] = make([]bool, len(names))
		for _, target := range targets[name] {
			if j, ok := slices.BinarySearch(names, target); ok {
				g.to[i][j] = true
			}
		}
	}
	return g
}

// greedy orders the files from the top: what nobody uses goes first, what uses nobody goes last, and if there is neither,
// the file goes first that has most arrows more to others than from them. Of several, the first by name.
func (g graph) greedy() []int {
	left := make([]int, len(g.to))
	for i := range left {
		left[i] = i
	}
	var top, bottom []int
	for len(left) > 0 {
		best, most := 0, -len(g.to)
		down := false
		for at, i := range left {
			out, in := g.degrees(i, left)
			if out == 0 && in > 0 {
				best, down = at, true
				break
			}
			if in == 0 {
				out += len(g.to) // before all that somebody uses
			}
			if out-in > most {
				best, most = at, out-in
			}
		}
		if down {
			bottom = append(bottom, left[best])
		} else {
			top = append(top, left[best])
		}
		left = slices.Delete(left, best, best+1)
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}

// degrees counts the arrows between i and those that are left.
func (g graph) degrees(i int, left []int) (out, in int) {
	for _, j := range left {
		if g.to[i][j] {
			out++
		}
		if g.to[j][i] {
			in++
		}
	}
	return out, in
}

// settled moves one file at a time to where fewest arrows run backward, until no move makes them fewer.
func (g graph) settled(order []int) []int {
	for moved := true; moved; {
		moved = false
		for i := range order {
			at := slices.Index(order, i)
			if place := g.bestPlace(order, at); place != at {
				order = slices.Insert(slices.Delete(order, at, at+1), place, i)
				moved = true
			}
		}
	}
	return order
}

// bestPlace returns where the file at a place would have fewest arrows backward, its own place if none is better.
func (g graph) bestPlace(order []int, at int) int {
	best, fewest := at, 0
	i, change := order[at], 0
	for place := at - 1; place >= 0; place-- { // it passes above j
		j := order[place]
		change += backIf(g.to[j][i]) - backIf(g.to[i][j])
		if change < fewest {
			best, fewest = place, change
		}
	}
	change = 0
	for place := at + 1; place < len(order); place++ { // it passes below j
		j := order[place]
		change += backIf(g.to[i][j]) - backIf(g.to[j][i])
		if change < fewest {
			best, fewest = place, change
		}
	}
	return best
}

func backIf(arrow bool) int {
	if arrow {
		return 1
	}
	return 0
}

// backward counts the arrows from later files to earlier ones.
func (g graph) backward(order []int) (n int) {
	for place, i := range order {
		for _, j := range order[:place] {
			n += backIf(g.to[i][j])
		}
	}
	return n
}
