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

// among returns words for a message: "a, b or c".
func among(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
