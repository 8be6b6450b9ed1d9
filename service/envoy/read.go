package envoy

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/internal/wholefile"
	"github.com/weblimit/weblimit/policy/yamlfile"
)

const maxBytes = 8 << 20

// format bounds a file. Ten thousand rules take about 2 MB, 110,000 values and as many marks.
var format = yamlfile.Format{
	Bytes: maxBytes, Marks: 700_000, Room: "50,000 rules", Values: 1_000_000, Levels: 100,
	Missing: `the file is empty; it needs "domain" and "descriptors"`,
	Second:  `a file is one document, of one domain: put what follows "---" into another file`,
}

// The fields of each part of a file, and what each is called in messages.
var (
	fieldsOf = map[string][]string{
		"the file":     {"domain", "descriptors"},
		"a descriptor": {"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata"},
		"rate_limit":   {"unit", "requests_per_unit", "unlimited", "name", "replaces"},
		"replaces":     {"name"},
	}
	parts = []string{"the file", "a descriptor", "rate_limit", "replaces"}
)

// reader reads one file.
type reader struct {
	*problems
	file   string
	values *yamlfile.Reading
}

// add adds a problem. Of a file that has passed a bound the rest is not read: that was told, and what is missing may be there.
func (r *reader) add(at place, format string, args ...any) {
	if !r.values.Exceeded() {
		r.problems.add(at, format, args...)
	}
}

// value is a value of a file and where it stands.
type value struct {
	node *yaml.Node // no alias
	at   place
}

// readFile returns the root of a file, or false after a problem. With endMark, the file must show that it is whole.
func (r *reader) readFile(text []byte, endMark bool) (value, bool) {
	if endMark && !wholefile.IsEnded(text) {
		r.add(place{file: r.file}, `the file does not end with the line "...", so it may be cut off`)
		return value{}, false
	}
	root, problem := format.Parse(text)
	if problem != nil {
		problem.File = r.file
		r.Add(*problem)
		return value{}, false
	}
	return r.resolve(root, "")
}

// resolve returns a value, which an alias may stand for. It returns false after a problem.
func (r *reader) resolve(n *yaml.Node, path string) (value, bool) {
	v := value{at: place{r.file, n.Line, n.Column, path}} // of an alias, and not of what it stands for
	of, problem := r.values.Value(n)
	if problem != "" {
		r.problems.add(v.at, "%s", problem)
	}
	v.node = of
	return v, of != nil
}

// enter begins to read the fields or items of a value. It returns false after a problem; r.values.End has to follow if there is none.
func (r *reader) enter(v value) bool {
	problem := r.values.Begin(v.node)
	if problem != "" {
		r.problems.add(v.at, "%s", problem)
	}
	return problem == ""
}

// fields calls use for each field of a part of the file. It returns false if the value is no map.
func (r *reader) fields(v value, part string, use func(name string, v value)) bool {
	if v.node.Kind != yaml.MappingNode {
		r.add(v.at, "%s must be a map of fields, not %s", part, kindOf(v.node))
		return false
	}
	if !r.enter(v) {
		return false
	}
	defer r.values.End(v.node)
	r.members(v, func(key value, member *yaml.Node) {
		name, at := key.node.Value, key.at
		at.path = join(v.at.path, name)
		if !slices.Contains(fieldsOf[part], name) {
			r.add(at, "%s", unknown(name, part))
			return
		}
		if resolved, ok := r.resolve(member, at.path); ok {
			if resolved.node.Kind != yaml.ScalarNode {
				resolved.at = at // the field is the better place to look at
			}
			use(name, resolved)
		}
	})
	return true
}

// members calls use for each field of a map. Those of a merge key (<<) count unless the map has them
// itself.
func (r *reader) members(v value, use func(key value, member *yaml.Node)) {
	seen := make(yamlfile.Keys)
	content := v.node.Content
	var merged []*yaml.Node
	for i := 0; i+1 < len(content); i += 2 {
		key, ok := r.resolve(content[i], v.at.path)
		switch {
		case !ok:
			return
		case key.node.Kind != yaml.ScalarNode || key.node.ShortTag() != "!!str" && key.node.ShortTag() != "!!merge":
			r.add(key.at, "the name of a field is text, not %s", kindOf(key.node))
			continue
		case key.node.ShortTag() == "!!merge":
			merged = append(merged, content[i+1])
			continue
		}
		if problem := seen.Add(key.node.Value, key.at.line); problem != "" {
			r.add(key.at, "%s", problem)
			continue
		}
		use(key, content[i+1])
	}
	for _, from := range merged {
		r.merge(v, from, seen, use)
	}
}

// merge calls use for fields of a map, or of several, that are not seen before.
func (r *reader) merge(v value, from *yaml.Node, seen yamlfile.Keys, use func(key value, member *yaml.Node)) {
	other, ok := r.resolve(from, v.at.path)
	if !ok {
		return
	}
	if !r.enter(other) {
		return
	}
	defer r.values.End(other.node)
	switch other.node.Kind {
	case yaml.SequenceNode:
		for _, item := range other.node.Content {
			r.merge(v, item, seen, use)
		}
	case yaml.MappingNode:
		r.members(other, func(key value, member *yaml.Node) {
			if seen.Add(key.node.Value, key.at.line) == "" { // else the map has it itself
				use(key, member)
			}
		})
	default:
		r.add(other.at, "<< merges a map of fields, or a list of them, not %s", kindOf(other.node))
	}
}

// items calls use for each item of a list. null is an empty list.
func (r *reader) items(v value, use func(v value)) {
	switch {
	case v.node.ShortTag() == "!!null":
		return
	case v.node.Kind != yaml.SequenceNode:
		r.add(v.at, "it must be a list, not %s", kindOf(v.node))
		return
	}
	if !r.enter(v) {
		return
	}
	defer r.values.End(v.node)
	for i, item := range v.node.Content {
		if resolved, ok := r.resolve(item, fmt.Sprintf("%s[%d]", v.at.path, i)); ok {
			use(resolved)
		}
	}
}

// text returns a text as written, whatever else YAML may take it for: 50 and yes are texts, too.
func (r *reader) text(v value) string {
	switch {
	case v.node.Kind != yaml.ScalarNode:
		r.add(v.at, "it must be text, not %s", kindOf(v.node))
	case v.node.ShortTag() == "!!binary":
		r.add(v.at, "it must be text; binary data is not used here")
	case v.node.ShortTag() != "!!null":
		return v.node.Value
	}
	return ""
}

// booleans are those of YAML 1.1, by which such files are written.
var booleans = map[string]bool{
	"y": true, "yes": true, "on": true, "true": true,
	"n": false, "no": false, "off": false, "false": false,
}

func (r *reader) boolean(v value) bool {
	is, ok := booleans[strings.ToLower(v.node.Value)]
	switch {
	case v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null":
		return false
	case v.node.Kind != yaml.ScalarNode || !ok || v.node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		r.add(v.at, "it must be true or false, not %s", kindOf(v.node))
	}
	return is
}

// number returns a number from 0 to 2^32-1.
func (r *reader) number(v value) uint32 {
	var n int64
	switch {
	case v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!int" || v.node.Decode(&n) != nil:
		r.add(v.at, "it must be a whole number from 0 to 4294967295, not %s", kindOf(v.node))
	case n < 0 || n > 1<<32-1:
		r.add(v.at, "it must be from 0 to 4294967295, not %s", v.node.Value)
	default:
		return uint32(n)
	}
	return 0
}

// unknown says that a part has no such field, and where it belongs or what was meant.
func unknown(name, part string) string {
	for _, other := range parts {
		if slices.Contains(fieldsOf[other], name) {
			return fmt.Sprintf("%s has no field %s; it belongs in %s", part, spelling.Quote(name), other)
		}
	}
	fields := fieldsOf[part]
	if hint := spelling.Meant(name, fields); hint != "" {
		return fmt.Sprintf("%s has no field %s%s", part, spelling.Quote(name), hint)
	}
	return fmt.Sprintf("%s has no field %s; it has %s", part, spelling.Quote(name), strings.Join(fields, ", "))
}

// kindOf says what a value is.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map of fields"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "the number " + strings.Trim(spelling.Quote(n.Value), `"`)
	case "!!bool":
		return n.Value
	}
	return spelling.Quote(n.Value)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
