package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/spelling"
)

// shape is what a value may look like. The loader checks files by shapes, and the JSON Schema is
// written from them, so that an editor accepts what the loader accepts.
type shape interface {
	// check adds problems and reports whether the value can be used.
	check(n *node, p *problems) bool

	// schema returns the shape as JSON Schema. Shapes that are used several times are put into defs.
	schema(defs map[string]any) map[string]any
}

// text is text, of one of some words or of a pattern.
type text struct {
	what    string // in messages, with its article: "a duration such as 15m"
	words   []string
	pattern *regexp.Regexp
	usual   []string // what editors suggest
	most    int      // bytes; 0 for 256
	secret  bool     // never shown
	measure bool     // a number with something behind it: quotes would not make it right
	valid   func(string) error
}

func (t *text) longest() int {
	if t.most == 0 {
		return 256
	}
	return t.most
}

func (t *text) check(n *node, p *problems) bool {
	switch {
	case n.kind != kindText && t.secret:
		p.add(n, "want %s", t.what)
	case n.kind != kindText && t.measure:
		p.add(n, "want %s, got %s", t.what, described(n))
	case n.kind == kindInteger, n.kind == kindNumber, n.kind == kindBoolean:
		p.add(n, "want %s, got %s, which YAML reads as %s; if it is meant as text, put it in quotes", t.what, n.text, kindNames[n.kind])
	case n.kind != kindText:
		p.add(n, "want %s, got %s", t.what, kindNames[n.kind])
	case t.words != nil && !slices.Contains(t.words, n.text):
		p.add(n, "%s is unknown, want %s%s", spelling.Quote(n.text), among(t.words), spelling.Meant(n.text, t.words))
	case n.text == "" && !t.secret:
		p.add(n, "the text is empty")
	case len(n.text) > t.longest():
		p.add(n, "the text has %d bytes, the most is %d", len(n.text), t.longest())
	case t.pattern != nil && !t.pattern.MatchString(n.text):
		if t.secret {
			p.add(n, "a secret does not belong into a policy file: want %s", t.what)
		} else {
			p.add(n, "%s is not %s", spelling.Quote(n.text), t.what)
		}
	// Elsewhere it would be taken as it is written, and look as if it were replaced.
	case !t.secret && strings.Contains(n.text, "${"):
		p.add(n, "references such as ${env:NAME} are read only where a secret is meant: in values of tokens and in key_secret")
	case t.valid != nil:
		if err := t.valid(n.text); err != nil {
			p.add(n, "%s", store.Reason(err))
			return false
		}
		return true
	default:
		return true
	}
	return false
}

func (t *text) schema(map[string]any) map[string]any {
	s := map[string]any{"type": "string"}
	switch {
	case t.words != nil:
		s["enum"] = t.words
		return s
	case t.pattern != nil:
		s["pattern"] = t.pattern.String()
	default:
		s["minLength"] = 1
	}
	s["maxLength"] = t.longest()
	if !t.secret {
		s["not"] = map[string]any{"pattern": `\$\{`}
	}
	if t.usual != nil {
		return map[string]any{"anyOf": []any{map[string]any{"enum": t.usual}, s}}
	}
	return s
}

// integer is a whole number.
type integer struct {
	least, most int64
}

func (i *integer) check(n *node, p *problems) bool {
	switch {
	case n.kind == kindText && decimal.MatchString(n.text):
		p.add(n, "want a whole number, got the text %q; remove the quotes", n.text)
	case n.kind != kindInteger:
		p.add(n, "want a whole number, got %s", described(n))
	case n.integer() < i.least || n.integer() > i.most:
		p.add(n, "want a number from %d to %d, got %s", i.least, i.most, n.text)
	default:
		return true
	}
	return false
}

func (i *integer) schema(map[string]any) map[string]any {
	return map[string]any{"type": "integer", "minimum": i.least, "maximum": i.most}
}

// number is a number above least, up to most.
type number struct {
	least, most float64
	open        bool // most itself is not allowed
	from        bool // least itself is allowed
}

func (f *number) check(n *node, p *problems) bool {
	if n.kind != kindInteger && n.kind != kindNumber {
		p.add(n, "want a number, got %s", described(n))
		return false
	}
	value := n.number()
	if value < f.least || value > f.most || value == f.least && !f.from || value == f.most && f.open {
		switch {
		case f.from:
			p.add(n, "want a number from %v to %v, got %s", f.least, f.most, n.text)
		case f.open:
			p.add(n, "want a number above %v and below %v, got %s%s", f.least, f.most, n.text, percent(f, value))
		default:
			p.add(n, "want a number above %v and at most %v, got %s%s", f.least, f.most, n.text, percent(f, value))
		}
		return false
	}
	return true
}

// percent says how to write a number that is probably meant in percent.
func percent(f *number, value float64) string {
	if f.most != 1 || value <= 1 || value > 100 {
		return ""
	}
	return fmt.Sprintf("; %v percent are %v", value, value/100)
}

func (f *number) schema(map[string]any) map[string]any {
	s := map[string]any{"type": "number", "exclusiveMinimum": f.least, "maximum": f.most}
	if f.from {
		delete(s, "exclusiveMinimum")
		s["minimum"] = f.least
	}
	if f.open {
		delete(s, "maximum")
		s["exclusiveMaximum"] = f.most
	}
	return s
}

// boolean is true or false.
type boolean struct{}

func (boolean) check(n *node, p *problems) bool {
	if n.kind != kindBoolean {
		p.add(n, "want true or false, got %s", described(n))
		return false
	}
	return true
}

func (boolean) schema(map[string]any) map[string]any { return map[string]any{"type": "boolean"} }

// only is true: a field that is there or not.
type only struct{}

func (only) check(n *node, p *problems) bool {
	if n.kind != kindBoolean || n.text != "true" {
		p.add(n, "want true, or no such field")
		return false
	}
	return true
}

func (only) schema(map[string]any) map[string]any { return map[string]any{"const": true} }

// list is a list of values of one shape.
type list struct {
	of     shape
	most   int
	unique bool
}

func (l *list) check(n *node, p *problems) bool {
	if n.kind != kindList {
		got := described(n)
		if t, ok := l.of.(*text); ok && t.secret {
			got = kindNames[n.kind]
		}
		p.add(n, "want a list, got %s", got)
		return false
	}
	ok := true
	switch {
	case len(n.items) == 0 && n.broken == nil:
		p.add(n, "it is empty")
		ok = false
	case len(n.items) > l.most:
		p.add(n, "the list has %d entries, the most is %d", len(n.items), l.most)
		return false
	}
	seen := make(map[string]bool, len(n.items))
	for _, item := range n.items {
		good := l.of.check(item, p)
		ok = ok && good
		if good && l.unique && seen[item.text] {
			p.add(item, "%s is in the list twice", spelling.Quote(item.text))
			ok = false
		}
		seen[item.text] = true
	}
	return ok
}

func (l *list) schema(defs map[string]any) map[string]any {
	s := map[string]any{"type": "array", "items": l.of.schema(defs), "minItems": 1, "maxItems": l.most}
	if l.unique {
		s["uniqueItems"] = true
	}
	return s
}

// named is an object whose field names are names that the file chooses.
type named struct {
	of   shape
	name *text
	most int
}

func (m *named) check(n *node, p *problems) bool {
	if n.kind != kindObject {
		p.add(n, "want a map of names, got %s", described(n))
		return false
	}
	ok := true
	switch {
	case len(n.fields) == 0 && n.broken == nil:
		p.add(n, "it is empty")
		ok = false
	case len(n.fields) > m.most:
		p.add(n, "it has %d entries, the most is %d", len(n.fields), m.most)
		return false
	}
	for i := range n.fields {
		ok = m.name.check(n.fields[i].key, p) && ok
		ok = m.of.check(n.fields[i].value, p) && ok
	}
	return ok
}

func (m *named) schema(defs map[string]any) map[string]any {
	return map[string]any{
		"type": "object", "propertyNames": m.name.schema(defs), "additionalProperties": m.of.schema(defs),
		"minProperties": 1, "maxProperties": m.most,
	}
}

// described returns what a node is, for messages about what it should have been.
func described(n *node) string {
	switch n.kind {
	case kindText:
		if n.hidden() {
			return kindNames[kindText]
		}
		return "the text " + spelling.Quote(n.text)
	case kindInteger, kindNumber, kindBoolean:
		if n.hidden() {
			return kindNames[n.kind]
		}
		return n.text
	}
	return kindNames[n.kind]
}

var durationPattern = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(us|ms|s|m|h|d))+$`)

// duration is text such as "1m30s", from least to most.
func duration(least, most time.Duration) *text {
	return &text{what: "a duration such as 500ms, 15m or 1h30m", measure: true, pattern: durationPattern, most: 64, valid: func(s string) error {
		d, err := parseDuration(s)
		switch {
		case err != nil:
			return err
		case d < least || d > most:
			return fmt.Errorf("want a duration from %s to %s, got %s", shortDuration(least), shortDuration(most), s)
		case d%time.Microsecond != 0:
			return fmt.Errorf("want whole microseconds, got %s", s)
		}
		return nil
	}}
}

var days = regexp.MustCompile(`([0-9]+)(\.[0-9]+)?d`)

// parseDuration is time.ParseDuration with days of 24 hours.
func parseDuration(s string) (time.Duration, error) {
	total := time.Duration(0)
	rest := days.ReplaceAllStringFunc(s, func(part string) string {
		n, err := time.ParseDuration(strings.TrimSuffix(part, "d") + "h")
		if err != nil || n > 1<<58/24 { // 24 times as much must fit
			return "?" // no duration
		}
		total += 24 * n
		return ""
	})
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration such as 500ms, 15m or 1h30m", s)
		}
		total += d
	}
	if total < 0 {
		return 0, fmt.Errorf("%q is too long", s)
	}
	return total, nil
}

// shortDuration returns 10m for 10m0s.
func shortDuration(d time.Duration) string {
	if d >= 24*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
