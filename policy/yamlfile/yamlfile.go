// Package yamlfile reads the YAML files of policies, of Envoy's rate limit service and of weblimitd's settings: with bounds before
// they are parsed, and with the place of whatever is wrong. It is exported because these are three modules. Applications need
// [github.com/weblimit/weblimit/policy].
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/internal/wholefile"
)

// Format is what the files of one kind may have. Whoever can write such a file could otherwise take all memory of the
// process that reads it: some megabytes of YAML make gigabytes of values, and a few aliases of aliases make billions of them.
type Format struct {
	Bytes  int    // at most
	Marks  int    // at most, as [wholefile.Marks] counts them before anything is parsed
	Room   string // what so many are enough for, such as "10,000 limits"
	Values int    // at most, with every alias written out; see Reading
	Levels int    // how many maps and lists may be inside of each other

	Missing string // what is wrong with an empty file; "" if nothing is
	Second  string // what is wrong with a file of several documents
}

// Parse returns the value that a file holds. It is nil if the file is empty, which may be a problem, or has another one, of which
// it has the place but not the name of the file.
func (f *Format) Parse(text []byte) (*yaml.Node, *Problem) {
	switch {
	case len(text) > f.Bytes:
		return nil, &Problem{Message: fmt.Sprintf("the file has more than %d bytes", f.Bytes)}
	case !utf8.Valid(text):
		return nil, &Problem{Message: "the file is not UTF-8 text"}
	case wholefile.Marks(text) > f.Marks:
		return nil, &Problem{Message: fmt.Sprintf("the file has more than %d commas, colons, dashes, brackets, braces and comments, which is more than %s need", f.Marks, f.Room)}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	switch {
	case errors.Is(err, io.EOF) && f.Missing == "":
		return nil, nil
	case errors.Is(err, io.EOF):
		return nil, &Problem{Message: f.Missing}
	case err == nil:
		err = decoder.Decode(&second)
	}
	switch {
	case err == nil:
		return nil, &Problem{Line: second.Line, Column: max(second.Column, 1), Message: f.Second}
	case !errors.Is(err, io.EOF):
		return nil, syntax(err, 1+bytes.Count(text, []byte("\n")))
	}
	return document.Content[0], nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax returns an error of the YAML library, which has no type, for a file of some lines.
func syntax(err error, lines int) *Problem {
	var p Problem
	text := err.Error()
	if match := yamlLine.FindStringSubmatch(text); match != nil {
		p.Line, _ = strconv.Atoi(match[1]) // 0 if there is none
		text = text[len(match[0]):]
	}
	switch {
	case strings.HasPrefix(text, "unknown anchor"): // its name can be a secret that begins with *
		text = "an alias (*…) without an anchor (&…); put text that begins with * in quotes"
	case strings.Contains(text, "found character that cannot start any token"):
		text += "; indent with blanks, not with tabs, and put text that begins with @ or ` in quotes"
	case strings.Contains(text, "did not find expected") && p.Line > 0:
		p.Line = min(p.Line+1, lines) // the library's parser counts from 0, its scanner from 1
	}
	p.Message = "this is not valid YAML: " + text
	return &p
}

// Reading reads the values of one file with every alias written out. It keeps to the bounds of the format: a file that
// passes one of them has no further values.
type Reading struct {
	format  *Format
	open    map[*yaml.Node]bool // maps and lists that are being read: one that is there again holds itself
	values  int
	stopped bool
}

// Reading begins to read the values of one file.
func (f *Format) Reading() *Reading { return &Reading{format: f, open: make(map[*yaml.Node]bool)} }

// Value counts a value, and returns it or what it is an alias of. It returns nil if it can't be used; problem is "" if that
// was told before.
func (r *Reading) Value(n *yaml.Node) (of *yaml.Node, problem string) {
	if r.values++; r.stopped {
		return nil, ""
	}
	if r.values > r.format.Values {
		r.stopped = true
		return nil, fmt.Sprintf("the file has more than %d values, with every alias written out", r.format.Values)
	}
	if n.Kind == yaml.AliasNode {
		if r.open[n.Alias] {
			return nil, fmt.Sprintf("*%s is inside of what it stands for", n.Value)
		}
		n = n.Alias
	}
	return n, ""
}

// Begin begins to read what is in a map or list. End has to follow if there is no problem.
func (r *Reading) Begin(n *yaml.Node) (problem string) {
	if len(r.open) >= r.format.Levels {
		r.stopped = true
		return fmt.Sprintf("values are nested more than %d deep", r.format.Levels)
	}
	r.open[n] = true
	return ""
}

// End ends what Begin has begun.
func (r *Reading) End(n *yaml.Node) { delete(r.open, n) }

// Exceeded reports whether the file has passed a bound.
func (r *Reading) Exceeded() bool { return r.stopped }

// Keys has the fields of a map by their names, and the lines in which they are.
type Keys map[string]int

// Add adds a field. It returns the problem of one that is there already.
func (k Keys) Add(name string, line int) (problem string) {
	if first, twice := k[name]; twice {
		return fmt.Sprintf("%s is there twice, first in line %d", spelling.Quote(name), first)
	}
	k[name] = line
	return ""
}
