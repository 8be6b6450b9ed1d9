package policy

import (
	"slices"
	"strings"

	"github.com/weblimit/weblimit/internal/spelling"
)

// field is a field of an object.
type field struct {
	name     string
	of       shape
	doc      string // for editors: what it means, and its default
	required bool
}

// object is a map with known fields. If it is used in several places, or inside of itself, it has a
// name in the schema.
type object struct {
	ref    string // its name in the schema; "" to write it out
	doc    string
	like   string // an example for messages, such as "as in {limit: 5/15m, by: ip}"
	fields []field
	one    bool              // exactly one field
	some   bool              // at least one field
	secret bool              // what stands in its place is not shown
	apart  [][]string        // fields that can't be there together
	hints  map[string]string // what to write instead of fields that readers of other files expect
}

func (o *object) names() []string {
	names := make([]string, len(o.fields))
	for i := range o.fields {
		names[i] = o.fields[i].name
	}
	return names
}

// check checks all fields, so that all problems of a file are told at once. Each is told once: a field whose value was broken, or
// that is spelt wrong, is not missing as well.
func (o *object) check(n *node, p *problems) bool {
	if n.kind != kindObject {
		like := o.like
		if like == "" {
			like = "of " + strings.Join(o.names(), ", ")
		}
		got := described(n)
		if o.secret {
			got = kindNames[n.kind]
		}
		p.add(n, "want a map %s, got %s", like, got)
		return false
	}
	ok := true
	for i := range n.fields {
		name, value := n.fields[i].key, n.fields[i].value
		at := slices.IndexFunc(o.fields, func(f field) bool { return f.name == name.text })
		if at < 0 {
			if instead := o.unknown(name, p); instead != "" {
				n.broken = append(n.broken, instead)
			}
			ok = false
			continue
		}
		ok = o.fields[at].of.check(value, p) && ok
	}
	for _, f := range o.fields {
		if f.required && n.get(f.name) == nil && !n.lost(f.name) && !n.lost("") {
			p.add(n, "%s is missing: %s", f.name, strings.ToLower(f.doc[:1])+strings.TrimSuffix(f.doc[1:], "."))
			ok = false
		}
	}
	switch {
	case o.one && len(n.fields) != 1 && n.broken == nil:
		p.add(n, "want exactly one of %s, got %d", among(o.names()), len(n.fields))
		ok = false
	case o.some && len(n.fields) == 0 && n.broken == nil:
		p.add(n, "want at least one of %s", among(o.names()))
		ok = false
	}
	for _, apart := range o.apart {
		var there []string
		for _, name := range apart {
			if n.get(name) != nil {
				there = append(there, name)
			}
		}
		if len(there) > 1 {
			p.add(n.get(there[1]), "%s and %s exclude each other", there[0], there[1])
			ok = false
		}
	}
	return ok
}

// unknown adds the problem of a field that there is not. It returns the one that was probably meant, or
// "".
func (o *object) unknown(name *node, p *problems) (instead string) {
	if p.Exceeded() { // to look for what was meant costs more than all else
		p.add(name, "unknown field")
		return ""
	}
	if hint := o.hints[name.text]; hint != "" {
		p.add(name, "unknown field; %s", hint)
		instead, _, _ = strings.Cut(strings.TrimPrefix(hint, "write "), ":")
		return instead
	}
	p.add(name, "unknown field%s", spelling.Meant(name.text, o.names()))
	return spelling.NearestName(name.text, o.names())
}

func (o *object) schema(defs map[string]any) map[string]any {
	if o.ref != "" {
		ref := map[string]any{"$ref": "#/$defs/" + o.ref}
		if _, known := defs[o.ref]; known {
			return ref
		}
		defs[o.ref] = nil // known from here on, since it may be inside of itself
		defs[o.ref] = o.written(defs)
		return ref
	}
	return o.written(defs)
}

func (o *object) written(defs map[string]any) map[string]any {
	properties := make(map[string]any, len(o.fields))
	var required []string
	for _, f := range o.fields {
		s := f.of.schema(defs)
		s["description"] = f.doc
		properties[f.name] = s
		if f.required {
			required = append(required, f.name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if o.doc != "" {
		s["description"] = o.doc
	}
	if required != nil {
		s["required"] = required
	}
	switch {
	case o.one:
		s["minProperties"], s["maxProperties"] = 1, 1
	case o.some:
		s["minProperties"] = 1
	}
	var pairs []any
	for _, apart := range o.apart {
		for i := range apart {
			for _, other := range apart[i+1:] {
				pairs = append(pairs, map[string]any{"required": []string{apart[i], other}})
			}
		}
	}
	if pairs != nil {
		s["not"] = map[string]any{"anyOf": pairs}
	}
	return s
}

// either is one of several shapes, which differ in their kinds.
type either struct {
	ref    string // its name in the schema
	what   string // in messages, with its article
	text   shape  // for texts; nil if none is allowed
	list   shape
	object shape
}

func (e *either) check(n *node, p *problems) bool {
	switch {
	case n.kind == kindText && e.text != nil:
		return e.text.check(n, p)
	case n.kind == kindList && e.list != nil:
		return e.list.check(n, p)
	case n.kind == kindObject && e.object != nil:
		return e.object.check(n, p)
	}
	p.add(n, "want %s, got %s", e.what, described(n))
	return false
}

func (e *either) schema(defs map[string]any) map[string]any {
	ref := map[string]any{"$ref": "#/$defs/" + e.ref}
	if _, known := defs[e.ref]; known {
		return ref
	}
	defs[e.ref] = nil
	var of []any
	for _, s := range []shape{e.text, e.list, e.object} {
		if s != nil {
			of = append(of, s.schema(defs))
		}
	}
	defs[e.ref] = map[string]any{"anyOf": of}
	return ref
}
