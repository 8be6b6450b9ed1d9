package envoy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/policy"
)

// Error is everything that is wrong with the files of a [Source], file by file, in the order of lines.
type Error struct {
	Problems []policy.Problem // at least one, at most 100
	More     int              // how many further ones there are
}

// Error returns one line for each problem, as compilers write theirs.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems)+1)
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return "weblimit: envoy: " + strings.Join(lines, "\n")
}

// maxProblems bounds how many problems are told.
const maxProblems = 100

// problems collects what is wrong with the files.
type problems struct {
	all  []policy.Problem
	more int
}

// place is where something stands in a file.
type place struct {
	file         string
	line, column int
	path         string
}

func (p *problems) add(at place, format string, args ...any) {
	found := policy.Problem{File: at.file, Line: at.line, Column: at.column, Path: at.path, Message: fmt.Sprintf(format, args...)}
	switch {
	case slices.Contains(p.all, found): // of what several aliases stand for
	case len(p.all) >= maxProblems:
		p.more++
	default:
		p.all = append(p.all, found)
	}
}

func (p *problems) err() error {
	if len(p.all) == 0 {
		return nil
	}
	slices.SortStableFunc(p.all, func(a, b policy.Problem) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return &Error{p.all, p.more}
}
