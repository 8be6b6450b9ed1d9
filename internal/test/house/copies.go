package main

import (
	"cmp"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

// shortest is how many lines a copy has at least.
const shortest = 6

// pair is two runs of equal lines, by the places where they begin.
type pair struct{ one, other, lines int }

// text is the lines of all files in one row, by numbers: equal lines have one number. After each file is a number that
// nothing else has, so that no run goes on into the next file.
type text struct {
	lines []int
	files []string // of each line
}

// copies lists how often two files have the same lines, and how many lines these are.
func (h *house) copies() table {
	all := table{title: "copies of six lines or more", head: []string{"copies", "lines"}}
	found := map[string][]int{}
	t := h.text()
	for _, p := range t.pairs() {
		name := t.files[p.one]
		if t.files[p.other] != name {
			name += " and " + t.files[p.other]
		}
		if found[name] == nil {
			found[name] = []int{0, 0}
		}
		found[name][0]++
		found[name][1] += p.lines
	}
	for name, counted := range found {
		all.rows = append(all.rows, row{name, counted})
	}
	slices.SortFunc(all.rows, func(a, b row) int {
		return cmp.Or(b.values[1]-a.values[1], strings.Compare(a.name, b.name))
	})
	return all
}

// copied counts the lines that stand in any copy.
func (h *house) copied() int {
	t := h.text()
	in := map[int]bool{}
	for _, p := range t.pairs() {
		for i := range p.lines {
			in[p.one+i], in[p.other+i] = true, true
		}
	}
	return len(in)
}

// text returns what is compared of all files.
func (h *house) text() text {
	var t text
	numbers := map[string]int{}
	end := 0
	h.each(func(f *file) {
		if ast.IsGenerated(f.parsed) {
			return
		}
		for line := range strings.Lines(compared(h.set, f)) {
			if !strings.ContainsFunc(line, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
				continue
			}
			line = strings.Join(strings.Fields(line), " ")
			if _, ok := numbers[line]; !ok {
				numbers[line] = len(numbers) + 1
			}
			t.lines, t.files = append(t.lines, numbers[line]), append(t.files, f.path())
		}
		end--
		t.lines, t.files = append(t.lines, end), append(t.files, f.path())
	})
	return t
}

// compared returns the source of a file behind its package clause, with spaces in place of comments and imports.
func compared(set *token.FileSet, f *file) string {
	source := slices.Clone(f.source)
	blank := func(n ast.Node) {
		for i := set.Position(n.Pos()).Offset; i < set.Position(n.End()).Offset; i++ {
			if source[i] != '\n' {
				source[i] = ' '
			}
		}
	}
	for _, group := range f.parsed.Comments {
		blank(group)
	}
	for _, d := range f.parsed.Decls {
		if imports, ok := d.(*ast.GenDecl); ok && imports.Tok == token.IMPORT {
			blank(d)
		}
	}
	return string(source[set.Position(f.parsed.Name.End()).Offset:])
}

// pairs returns the longest runs of equal lines, each pair once. Runs of one pair don't overlap.
func (t text) pairs() (found []pair) {
	begin := map[[shortest]int][]int{}
	for i := 0; i+shortest <= len(t.lines); i++ {
		window := [shortest]int(t.lines[i:])
		if slices.Min(window[:]) > 0 {
			begin[window] = append(begin[window], i)
		}
	}
	for _, places := range begin {
		for k, one := range places {
			for _, other := range places[k+1:] {
				if one > 0 && t.lines[one-1] == t.lines[other-1] {
					continue // part of a longer run
				}
				n := 0
				for one+n < other && other+n < len(t.lines) && t.lines[one+n] == t.lines[other+n] {
					n++
				}
				if n >= shortest {
					found = append(found, pair{one, other, n})
				}
			}
		}
	}
	return found
}
