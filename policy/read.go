package policy

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/internal/wholefile"
)

// Bounds of a file. Ten thousand limits take about 2 MB, 150,000 values and 200,000 marks.
const (
	maxBytes  = 8 << 20
	maxMarks  = 300_000 // before it is parsed: see wholefile.Marks
	maxValues = 300_000 // with every alias written out, so that aliases of aliases can't explode
	maxDepth  = 40
)

// read parses a file into nodes. It refuses whatever YAML reads in a surprising way, and whatever two
// readers of YAML may read differently: the file is also read by editors, tools and reviews, which must see the
// limits that decide.
func read(text []byte, p *problems) *node {
	switch {
	case len(text) > maxBytes:
		p.add(nil, "the file has %d bytes, the most is %d", len(text), maxBytes)
		return nil
	case !utf8.Valid(text):
		p.add(nil, "the file is not UTF-8 text")
		return nil
	case wholefile.Marks(text) > maxMarks:
		p.add(nil, "the file has more than %d commas, colons, dashes, brackets, braces and comments, which is more than %d limits need", maxMarks, 10_000)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			p.add(nil, `the file is empty; it needs "policies:"`)
		} else {
			p.add(lineOf(err), "%s", syntax(err))
		}
		return nil
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			p.add(lineOf(err), "%s", syntax(err))
		} else {
			p.add(&node{line: second.Line, column: max(second.Column, 1)}, `a file is one document: remove the "---" between them`)
		}
		return nil
	}
	r := reader{problems: p, open: make(map[*yaml.Node]bool)}
	root := r.node(document.Content[0], nil, "", 0)
	if r.stopped {
		return nil
	}
	return root
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax returns an error of the YAML library without its prefix.
func syntax(err error) string {
	text := yamlLine.ReplaceAllString(err.Error(), "")
	switch {
	case strings.HasPrefix(text, "unknown anchor"): // its name can be a secret that begins with *
		text = "an alias (*…) without an anchor (&…); put text that begins with * in quotes"
	case strings.Contains(text, "found character that cannot start any token"):
		text += "; indent with blanks, not with tabs, and put text that begins with @ or ` in quotes"
	}
	return "this is not valid YAML: " + text
}

func lineOf(err error) *node {
	match := yamlLine.FindStringSubmatch(err.Error())
	if match == nil || match[1] == "" {
		return nil
	}
	line, _ := strconv.Atoi(match[1])
	if strings.Contains(err.Error(), "did not find expected") {
		line++ // its parser counts from 0, its scanner from 1
	}
	return &node{line: line}
}

// reader makes nodes of YAML nodes.
type reader struct {
	problems *problems
	open     map[*yaml.Node]bool // aliases that are being followed: one that is there again holds itself
	values   int
	depth    int
	stopped  bool // a bound was passed
}

// node returns a node, or nil if it can't be used. An alias is replaced by what it stands for, and
// keeps the position of that.
func (r *reader) node(from *yaml.Node, in *node, name string, at int) *node {
	n := &node{line: from.Line, column: from.Column, in: in, name: name, at: at}
	if from.Kind == yaml.AliasNode {
		if r.open[from.Alias] {
			r.problems.add(n, "*%s is inside of what it stands for", from.Value)
			return nil
		}
		r.open[from.Alias] = true
		defer delete(r.open, from.Alias)
		return r.node(from.Alias, in, name, at)
	}
	r.depth++
	defer func() { r.depth-- }()
	switch r.values++; {
	case r.stopped:
		return nil
	case r.values > maxValues:
		r.stopped = true
		r.problems.add(n, "the file has more than %d values, with every alias written out", maxValues)
		return nil
	case r.depth > maxDepth:
		r.stopped = true
		r.problems.add(n, "values are nested more than %d deep", maxDepth)
		return nil
	}
	if from.Style&yaml.TaggedStyle != 0 {
		r.problems.add(n, "tags (%s) are not used here; remove it, or put text that begins with ! in quotes", n.shown(from.Tag))
		return nil
	}
	switch from.Kind {
	case yaml.MappingNode:
		r.object(from, n)
	case yaml.SequenceNode:
		n.kind = kindList
		for i, item := range from.Content {
			if made := r.node(item, n, "", i); made != nil {
				n.items = append(n.items, made)
			} else {
				n.broken = append(n.broken, "")
			}
		}
	case yaml.ScalarNode:
		if !r.scalar(from, n, false) {
			return nil
		}
	}
	return n
}

func (r *reader) object(from *yaml.Node, n *node) {
	n.kind = kindObject
	lines := make(map[string]int, len(from.Content)/2)
	for i := 0; i+1 < len(from.Content); i += 2 {
		name, value := from.Content[i], from.Content[i+1]
		if name.Kind == yaml.AliasNode {
			name = name.Alias
		}
		key := &node{line: name.Line, column: name.Column, in: n, name: name.Value}
		if value.Kind == yaml.MappingNode || value.Kind == yaml.SequenceNode {
			value.Line, value.Column = name.Line, name.Column // the field is the better place to look at
		}
		switch {
		case name.Kind != yaml.ScalarNode:
			r.problems.add(n, "the name of a field is text, and not a list or a map")
			n.broken = append(n.broken, "")
			continue
		case name.Value == "<<" && name.Style == 0:
			r.problems.add(key, "merge keys (<<) are not read, since tools disagree about them; write the fields out, or use an alias for the whole value")
			n.broken = append(n.broken, "")
			continue
		case !r.scalar(name, key, true):
			n.broken = append(n.broken, name.Value)
			continue
		case key.kind != kindText:
			r.problems.add(key, "the name of a field is text, and YAML reads %s as %s; put it in quotes", name.Value, kindNames[key.kind])
			n.broken = append(n.broken, name.Value)
			continue
		}
		if line, twice := lines[key.text]; twice {
			r.problems.add(key, "%s is there twice, first in line %d", spelling.Quote(key.text), line)
			continue
		}
		lines[key.text] = name.Line
		if made := r.node(value, n, key.text, 0); made != nil {
			n.fields = append(n.fields, member{key, made})
		} else {
			n.broken = append(n.broken, key.text)
		}
	}
}

var (
	decimal  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	floating = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

	// booleans11 are booleans to readers of YAML 1.1.
	booleans11 = map[string]string{"y": "true", "yes": "true", "on": "true", "n": "false", "no": "false", "off": "false"}
)

// scalar sets kind and text of n, which may be the name of a field. It returns false after a problem.
func (r *reader) scalar(from *yaml.Node, n *node, name bool) bool {
	n.text = from.Value
	if from.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		n.kind = kindText
		return true
	}
	switch from.ShortTag() {
	case "!!null":
		n.kind = kindNull
	case "!!bool":
		n.kind, n.text = kindBoolean, strings.ToLower(from.Value)
	case "!!int":
		if !decimal.MatchString(from.Value) {
			r.problems.add(n, "%s is a number that readers of YAML read differently (octal, hexadecimal, with underscores or a sign); write it in decimal digits, or in quotes if it is text", n.shown(from.Value))
			return false
		}
		if _, err := strconv.ParseInt(from.Value, 10, 64); err != nil {
			r.problems.add(n, "%s is too large a number", n.shown(from.Value))
			return false
		}
		n.kind = kindInteger
	case "!!float":
		if !floating.MatchString(from.Value) {
			r.problems.add(n, "%s is no number that can be used here; write one such as 0.8, or put it in quotes if it is text", n.shown(from.Value))
			return false
		}
		n.kind = kindNumber
	case "!!str", "!!timestamp":
		if meant, ok := booleans11[strings.ToLower(from.Value)]; ok {
			if name {
				r.problems.add(n, "%s is %s to some readers of YAML and text to others; put it in quotes", n.shown(from.Value), meant)
				return false
			}
			r.problems.add(n, "%s is %s to some readers of YAML and text to others; write %s, or put it in quotes", n.shown(from.Value), meant, meant)
			return false
		}
		n.kind = kindText
	default:
		r.problems.add(n, "%s: values of this kind (%s) are not used here", n.shown(from.Value), from.ShortTag())
		return false
	}
	return true
}
