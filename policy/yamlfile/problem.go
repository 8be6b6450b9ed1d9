package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a file.
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

// Error is everything that is wrong with files, file by file, in the order of lines. It never holds a secret.
type Error struct {
	Problems []Problem // at least one, at most 100
	More     int       // how many further ones there are
	of       string
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
	return "weblimit: " + e.of + ": " + strings.Join(lines, "\n")
}

// maxProblems bounds how many problems are told.
const maxProblems = 100

// Problems collects what is wrong with files, so that their author mends them once and not line by line. Its zero value
// is ready to use.
type Problems struct {
	all   []Problem
	known map[Problem]bool // by place and message
	more  int
}

// Add adds a problem, unless the same was told of its place before: an alias, or a default, is read in several places.
func (p *Problems) Add(found Problem) {
	if p.Exceeded() {
		p.more++
		return
	}
	same := found
	same.Path = "" // wherever an alias or a default puts it
	if p.known[same] {
		return
	}
	if p.known == nil {
		p.known = make(map[Problem]bool)
	}
	p.known[same] = true
	p.all = append(p.all, found)
}

// Exceeded reports whether further problems are only counted. Then it is not worth finding out what was
// meant: a file may have a million.
func (p *Problems) Exceeded() bool { return len(p.all) >= maxProblems }

// Count returns how many problems were added.
func (p *Problems) Count() int { return len(p.all) + p.more }

// All returns the problems in the order in which they were added.
func (p *Problems) All() []Problem { return p.all }

// Err returns an [*Error] with the problems, or nil if there are none. Its text says what the files are of, such as "policy".
func (p *Problems) Err(of string) error {
	if len(p.all) == 0 {
		return nil
	}
	slices.SortStableFunc(p.all, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
	return &Error{p.all, p.more, of}
}
