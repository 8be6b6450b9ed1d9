package policy

import (
	"fmt"
	"strings"

	"github.com/weblimit/weblimit/policy/yamlfile"
)

// Problem is one thing that is wrong with a policy file. Its String has the form of compilers' messages, so that editors find
// the place.
type Problem = yamlfile.Problem

// Error is everything that is wrong with a policy file, in the order of its lines: at least one Problem, at most 100, and
// how many more there are. It never holds a secret.
type Error = yamlfile.Error

// problems collects what is wrong with one file.
type problems struct {
	file string
	yamlfile.Problems
}

// add adds a problem of a node, and marks the node and what it is in.
func (p *problems) add(n *node, format string, args ...any) {
	for in := n; in != nil; in = in.in {
		in.bad = true
	}
	found := Problem{File: p.file}
	if !p.Exceeded() {
		found.Message = fmt.Sprintf(format, args...)
		if n != nil {
			found.Line, found.Column, found.Path = n.line, n.column, n.path()
		}
	}
	p.Add(found)
}

func (p *problems) err() error { return p.Err("policy") }

// among returns words for a message: "a, b or c".
func among(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
