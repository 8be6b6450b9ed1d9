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

// quote returns text for a message, in quotes and not too long.
func quote(text string) string {
	const longest = 60
	if len(text) > longest {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(text[:longest], ""))
	}
	return fmt.Sprintf("%q", text)
}

// meant returns "; did you mean …?" if one of the words is near to a name, or "".
func meant(name string, words []string) string {
	const longest = 32
	if len(name) > longest {
		return ""
	}
	plain := strings.NewReplacer("_", "", "-", "", " ", "")
	best, least := "", min(len(name)/3, 2)+1
	for _, word := range words {
		if d := distance(plain.Replace(strings.ToLower(name)), plain.Replace(word)); d < least {
			best, least = word, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance returns how many letters have to be added, removed, replaced or swapped with their neighbour to
// make b of a.
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
