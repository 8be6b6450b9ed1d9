package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a policy file.
type Problem struct {
	File    string // as it was loaded, such as "limits.yaml"
	Line    int    // from 1; 0 if it is about the file as a whole
	Column  int    // from 1; 0 if it is not known
	Path    string // where in the file, such as "policies.api.limits.login.by"; "" for the file
	Message string // what is wrong, what was expected, and what was probably meant
}

// String returns the problem as compilers write theirs, so that editors find the place.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Column > 0 {
		fmt.Fprintf(&b, ":%d", p.Column)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path)
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Error is everything that is wrong with a policy file, in the order of its lines. It never holds a
// secret.
type Error struct {
	Problems []Problem // at least one, at most 100
	More     int       // how many further ones there are
}

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems)+1)
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return "weblimit: policy: " + strings.Join(lines, "\n")
}

// maxProblems bounds how many problems are told.
const maxProblems = 100

// problems collects what is wrong with one file.
type problems struct {
	file  string
	all   []Problem
	known map[Problem]bool // by place and message
	more  int
}

// add adds a problem of a node, and marks the node and what it is in.
func (p *problems) add(n *node, format string, args ...any) {
	for in := n; in != nil; in = in.in {
		in.bad = true
	}
	if p.full() {
		p.more++
		return
	}
	found := Problem{File: p.file, Message: fmt.Sprintf(format, args...)}
	if n != nil {
		found.Line, found.Column, found.Path = n.line, n.column, n.path()
	}
	same := Problem{Line: found.Line, Column: found.Column, Message: found.Message} // wherever an alias or a default puts it
	if p.known[same] {
		return
	}
	if p.known == nil {
		p.known = make(map[Problem]bool)
	}
	p.known[same] = true
	p.all = append(p.all, found)
}

// full reports whether further problems are only counted. Then it is not worth finding out what was
// meant: a file may have a million.
func (p *problems) full() bool { return len(p.all) >= maxProblems }

func (p *problems) err() error {
	if len(p.all) == 0 {
		return nil
	}
	slices.SortStableFunc(p.all, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return &Error{p.all, p.more}
}

// quote returns text for a message, in quotes and not too long.
func quote(text string) string {
	const longest = 60
	if len(text) > longest {
		return fmt.Sprintf("%q…", text[:longest])
	}
	return fmt.Sprintf("%q", text)
}

// among returns words for a message: "a, b or c".
func among(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// meant returns "; did you mean …?" if one of the words is near to a name, or "".
func meant(name string, words []string) string {
	if best := nearest(name, words); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

// nearest returns the word that name was probably meant to be, or "".
func nearest(name string, words []string) (best string) {
	const longest = 32
	if len(name) > longest {
		return ""
	}
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
	}
	name = plain(name)
	least := min(len(name)/3, 2) + 1
	for _, word := range words {
		if d := distance(name, plain(word)); d < least {
			best, least = word, d
		}
	}
	return best
}

// distance returns how many letters have to be added, removed, replaced or swapped with their
// neighbour to make b of a.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
