package envoy

import (
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// find returns the most specific descriptor for an entry: one of its key and value, else the first
// wildcard that matches, else one of its key alone.
func (l *level) find(key, value string) *node {
	if n := l.exact[pair{key, value}]; n != nil {
		return n
	}
	whole := "" // made once: a value can be long, and wildcards many
	for _, n := range l.wildcards {
		switch {
		case !n.whole:
			if n.key == key && matches(n.parts, value) {
				return n
			}
			continue
		case whole == "":
			whole = key + "_" + value
		}
		if matches(n.parts, whole) {
			return n
		}
	}
	return l.byKey[key]
}

// matches reports whether a text is that of a wildcard: each star stands for any text, also for none.
// It takes time in proportion to the text.
func matches(parts []string, text string) bool {
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}

// match finds the rule of a descriptor, which has as many entries as the rule has levels. It returns
// nil if there is none. key is what the rule counts by, and path the name in statistics.
func (d *domain) match(of *ratelimit.RateLimitDescriptor) (found *rule, key []byte, path string) {
	in := &d.level
	entries := of.GetEntries()
	nodes := make([]*node, 0, 8) // few configurations are deeper: no allocation
	for _, entry := range entries {
		n := in.find(entry.GetKey(), entry.GetValue())
		if n == nil {
			return nil, nil, ""
		}
		nodes = append(nodes, n)
		in = &n.level
	}
	if len(nodes) == 0 || nodes[len(nodes)-1].rule == nil {
		return nil, nil, ""
	}
	found = nodes[len(nodes)-1].rule
	if found.unlimited {
		return found, nil, d.path(found, nodes, entries)
	}
	return found, d.key(nodes, entries), d.path(found, nodes, entries)
}

// path returns the name of a rule in statistics: that of the rule, with values of the request where
// detailed_metric and value_to_metric ask for them. A value that is shared is one bucket, so it has one name, too.
func (d *domain) path(found *rule, nodes []*node, entries []*ratelimit.RateLimitDescriptor_Entry) string {
	own := found.detailed // whether the name is made of the request
	for _, n := range nodes {
		own = own || n.valueToMetric && !n.share && (n.parts != nil || n.value == "")
	}
	if !own {
		return found.path
	}
	var path strings.Builder
	path.WriteString(d.name)
	for i, n := range nodes {
		value := entries[i].GetValue()
		switch {
		case n.parts != nil && n.share:
			value = n.value
		case found.detailed || n.valueToMetric || n.parts == nil && n.value != "":
		default:
			value = n.value
		}
		path.WriteString(separator + shortened(entries[i].GetKey()))
		if value != "" || found.detailed && !n.share {
			path.WriteString("_" + shortened(value))
		}
	}
	return path.String()
}
