package envoy

import (
	"fmt"

	"github.com/weblimit/weblimit/policy/yamlfile"
)

// Error is everything that is wrong with the files of a [Source], file by file, in the order of lines: at least one
// policy.Problem, at most 100, and how many more there are.
type Error = yamlfile.Error

// problems collects what is wrong with the files.
type problems struct{ yamlfile.Problems }

// place is where something stands in a file.
type place struct {
	file         string
	line, column int
	path         string
}

func (p *problems) add(at place, format string, args ...any) {
	p.Add(yamlfile.Problem{File: at.file, Line: at.line, Column: at.column, Path: at.path, Message: fmt.Sprintf(format, args...)})
}

func (p *problems) err() error { return p.Err("envoy") }
