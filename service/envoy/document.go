package envoy

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weblimit/weblimit/internal/spelling"
)

// document is a file: the limits of one domain, or a part of them.
type document struct {
	at          place
	domain      string
	algorithm   *Algorithm // that the file says, or nil
	descriptors []*descriptor
}

// descriptor is an item of a list of descriptors.
type descriptor struct {
	at         place
	key, value string
	limit      *rateLimit // or nil
	below      []*descriptor
	metadata   *structpb.Struct

	shadow, quota, detailed, valueToMetric, share bool
}

// rateLimit is a rate_limit.
type rateLimit struct {
	requests  uint32
	unit      rls.RateLimitResponse_RateLimit_Unit
	unlimited bool
	name      string
	replaces  []string
}

// parse reads a file. It adds what is wrong to p.
func parse(file string, text []byte, endMark bool, p *problems) *document {
	r := &reader{problems: p, file: file, values: format.Reading()}
	root, ok := r.readFile(text, endMark)
	if !ok {
		return nil
	}
	d := &document{at: place{file: file, line: root.at.line, column: root.at.column}}
	isMap := r.fields(root, "the file", func(name string, v value) {
		switch name {
		case "domain":
			d.domain, d.at = r.text(v), v.at
		case "descriptors":
			d.descriptors = r.descriptors(v)
		}
	})
	if isMap && d.domain == "" {
		r.add(place{file: file, line: d.at.line, column: d.at.column, path: "domain"}, "the file needs a domain, as Envoy's configuration names it")
	}
	d.algorithm = r.directive(text)
	return d
}

var directives = regexp.MustCompile(`(?m)^#[ \t]*weblimit:[ \t]*(.*?)[ \t\r]*$`)

// directive reads a comment such as "# weblimit: sliding_window", by which a file says how it counts
// and stays one that envoyproxy/ratelimit reads.
func (r *reader) directive(text []byte) *Algorithm {
	var found *Algorithm
	line, counted := 1, 0 // a file can be nothing but such comments
	for _, match := range directives.FindAllSubmatchIndex(text, -1) {
		line += bytes.Count(text[counted:match[0]], []byte("\n"))
		counted = match[0]
		at := place{file: r.file, line: line, column: 1}
		var a Algorithm
		switch err := a.UnmarshalText(text[match[2]:match[3]]); {
		case err != nil:
			r.add(at, "the comment %s: unknown algorithm; there are %s", spelling.Quote(string(text[match[0]:match[1]])), strings.Join(algorithms[:], ", "))
		case found != nil:
			r.add(at, "a file has one comment that begins with weblimit:")
		default:
			found = &a
		}
	}
	return found
}

func (r *reader) descriptors(v value) (all []*descriptor) {
	r.items(v, func(v value) {
		if d := r.descriptor(v); d != nil {
			all = append(all, d)
		}
	})
	return all
}

func (r *reader) descriptor(v value) *descriptor {
	d := &descriptor{at: v.at}
	isMap := r.fields(v, "a descriptor", func(name string, v value) {
		switch name {
		case "key":
			d.key = r.text(v)
		case "value":
			d.value = r.text(v)
		case "rate_limit":
			d.limit = r.rateLimit(v)
		case "descriptors":
			d.below = r.descriptors(v)
		case "shadow_mode":
			d.shadow = r.boolean(v)
		case "quota_mode":
			d.quota = r.boolean(v)
		case "detailed_metric":
			d.detailed = r.boolean(v)
		case "value_to_metric":
			d.valueToMetric = r.boolean(v)
		case "share_threshold":
			d.share = r.boolean(v)
		case "metadata":
			d.metadata = r.metadata(v)
		}
	})
	switch {
	case !isMap:
		return nil
	case d.key == "":
		r.add(d.at, "a descriptor needs a key")
		return nil
	case d.share && !strings.Contains(d.key+d.value, "*"):
		r.add(d.at, "share_threshold is for values with a wildcard, such as %s", spelling.Quote(d.value+"*"))
	}
	return d
}

// units by name.
var units = []string{"second", "minute", "hour", "day", "week", "month", "year"}

func (r *reader) rateLimit(v value) *rateLimit {
	if v.node.ShortTag() == "!!null" {
		return nil
	}
	l := new(rateLimit)
	has := make(map[string]place)
	isMap := r.fields(v, "rate_limit", func(name string, v value) {
		has[name] = v.at
		switch name {
		case "unit":
			text := r.text(v)
			unit, known := rls.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(text)]
			if !known || unit == 0 {
				r.add(v.at, "unknown unit %s%s; units are %s", spelling.Quote(text), spelling.Meant(text, units), strings.Join(units, ", "))
			}
			l.unit = rls.RateLimitResponse_RateLimit_Unit(unit)
		case "requests_per_unit":
			l.requests = r.number(v)
		case "unlimited":
			l.unlimited = r.boolean(v)
		case "name":
			l.name = r.text(v)
		case "replaces":
			r.items(v, func(v value) { l.replaces = append(l.replaces, r.replaced(v)) })
		}
	})
	if !isMap {
		return nil
	}
	_, hasUnit := has["unit"]
	_, hasRequests := has["requests_per_unit"]
	switch {
	case l.unlimited && l.unit != 0:
		r.add(has["unit"], "an unlimited rate_limit has no unit")
	case l.unlimited:
	case !hasUnit:
		r.add(v.at, "rate_limit needs a unit: %s", strings.Join(units, ", "))
	case !hasRequests:
		r.add(v.at, "rate_limit needs requests_per_unit; 0 denies everything")
	}
	if l.name != "" && slices.Contains(l.replaces, l.name) {
		r.add(has["replaces"], "%s replaces itself", spelling.Quote(l.name))
	}
	return l
}

func (r *reader) replaced(v value) (name string) {
	isMap := r.fields(v, "replaces", func(_ string, v value) { name = r.text(v) })
	if isMap && name == "" {
		r.add(v.at, "it needs the name of the rate_limit that is replaced")
	}
	return name
}

// metadata reads what is passed on as it is.
func (r *reader) metadata(v value) *structpb.Struct {
	if v.node.ShortTag() == "!!null" {
		return nil
	}
	made := r.any(v)
	if made.GetStructValue() == nil {
		if made != nil {
			r.add(v.at, "metadata must be a map of fields, not %s", kindOf(v.node))
		}
		return nil
	}
	return made.GetStructValue()
}

// any returns a value of metadata, or nil after a problem.
func (r *reader) any(v value) *structpb.Value {
	switch v.node.Kind {
	case yaml.MappingNode:
		if !r.enter(v) {
			return nil
		}
		defer r.values.End(v.node)
		all := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
		r.members(v, func(key value, member *yaml.Node) {
			if of, ok := r.resolve(member, join(v.at.path, key.node.Value)); ok {
				if made := r.any(of); made != nil {
					all.Fields[key.node.Value] = made
				}
			}
		})
		return structpb.NewStructValue(all)
	case yaml.SequenceNode:
		all := new(structpb.ListValue)
		r.items(v, func(v value) {
			if made := r.any(v); made != nil {
				all.Values = append(all.Values, made)
			}
		})
		return structpb.NewListValue(all)
	}
	switch v.node.ShortTag() {
	case "!!null":
		return structpb.NewNullValue()
	case "!!bool":
		return structpb.NewBoolValue(r.boolean(v))
	case "!!int", "!!float":
		var f float64
		if v.node.Decode(&f) == nil && f-f == 0 { // neither infinite nor NaN, which JSON does not have
			return structpb.NewNumberValue(f)
		}
		r.add(v.at, "%s is no number that metadata can have", spelling.Quote(v.node.Value))
		return nil
	case "!!binary":
		r.add(v.at, "metadata has no binary data")
		return nil
	}
	return structpb.NewStringValue(v.node.Value)
}
