package policy

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/policy/yamlfile"
)

const maxBytes = 8 << 20

// format bounds a file, and a table of [Test]. Ten thousand limits take about 2 MB, 150,000 values and 200,000 marks.
var format = yamlfile.Format{
	Bytes: maxBytes, Marks: 300_000, Room: "10,000 limits", Values: 300_000, Levels: 40,
	Missing: `the file is empty; it needs "policies:"`, Second: `a file is one document: remove the "---" between them`,
}

// read parses a file into nodes. It refuses whatever YAML reads in a surprising way, and whatever two
// readers of YAML may read differently: the file is also read by editors, tools and reviews, which must see the
// limits that decide.
func read(text []byte, p *problems) *node {
	top, problem := format.Parse(text)
	if problem != nil {
		problem.File = p.file
		p.Add(*problem)
		return nil
	}
	r := reader{p, format.Reading()}
	root := r.node(top, nil, "", 0)
	if r.values.Exceeded() {
		return nil
	}
	return root
}

// reader makes nodes of YAML nodes.
type reader struct {
	problems *problems
	values   *yamlfile.Reading
}

// node returns a node, or nil if it can't be used. An alias is replaced by what it stands for, and
// keeps the position of that.
func (r *reader) node(from *yaml.Node, in *node, name string, at int) *node {
	n := &node{line: from.Line, column: from.Column, in: in, name: name, at: at}
	of, problem := r.values.Value(from)
	if of == nil {
		if problem != "" {
			r.problems.add(n, "%s", problem)
		}
		return nil
	}
	n.line, n.column = of.Line, of.Column
	if of.Style&yaml.TaggedStyle != 0 {
		r.problems.add(n, "tags (%s) are not used here; remove it, or put text that begins with ! in quotes", n.shown(of.Tag))
		return nil
	}
	if of.Kind == yaml.ScalarNode {
		if !r.scalar(of, n, false) {
			return nil
		}
		return n
	}
	if problem := r.values.Begin(of); problem != "" {
		r.problems.add(n, "%s", problem)
		return nil
	}
	defer r.values.End(of)
	if of.Kind == yaml.MappingNode {
		r.object(of, n)
		return n
	}
	n.kind = kindList
	for i, item := range of.Content {
		if made := r.node(item, n, "", i); made != nil {
			n.items = append(n.items, made)
		} else {
			n.broken = append(n.broken, "")
		}
	}
	return n
}

func (r *reader) object(from *yaml.Node, n *node) {
	n.kind = kindObject
	keys := make(yamlfile.Keys, len(from.Content)/2)
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
		if problem := keys.Add(key.text, name.Line); problem != "" {
			r.problems.add(key, "%s", problem)
			continue
		}
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
