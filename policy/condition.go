package policy

import (
	"slices"

	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/keyfuncs"
)

// condition returns the condition of a node: all of its fields. After a problem it returns one that
// never holds.
func (s *scope) condition(n *node) keyfuncs.Condition {
	all := make([]keyfuncs.Condition, 0, len(n.fields))
	for i := range n.fields {
		of, v := n.fields[i].key.text, n.fields[i].value
		c := s.conditionField(of, v)
		if err := c.Err(); err != nil {
			s.add(v, "%s", unprefixed(err))
			c = never
		}
		all = append(all, c)
	}
	switch len(all) {
	case 0:
		return never
	case 1:
		return all[0]
	}
	return keyfuncs.All(all...)
}

// never stands for what could not be read; the file is refused.
var never = keyfuncs.Matches(func(keyfuncs.Request) bool { return false })

func (s *scope) conditions(n *node) []keyfuncs.Condition {
	if n == nil {
		return nil
	}
	all := make([]keyfuncs.Condition, 0, len(n.items))
	for _, item := range n.items {
		all = append(all, s.condition(item))
	}
	return all
}

func (s *scope) conditionField(of string, v *node) keyfuncs.Condition {
	switch of {
	case "routes":
		return keyfuncs.Routes(v.texts()...)
	case "paths":
		return keyfuncs.Paths(v.texts()...)
	case "methods":
		return keyfuncs.Methods(v.texts()...)
	case "from":
		if strategy, ok := s.strategy(); ok {
			return strategy.FromCIDR(v.texts()...)
		}
		return keyfuncs.FromCIDR(v.texts()...)
	case "tokens":
		return s.tokens(v)
	case "header":
		name := v.get("name")
		if err := keyfuncs.Header(name.string()).Err(); err != nil {
			s.add(name, "%s", unprefixed(err))
			return never
		}
		return headerIs(name.string(), v.get("is").texts())
	case "value":
		return valueIs(s.value(v.get("of")), v.get("is").texts())
	case "percent":
		return keyfuncs.Percent(v.get("up_to").number(), s.key(v.get("of")))
	case "preflight":
		return keyfuncs.Preflight()
	case "condition":
		return s.namedCondition(v)
	case "all":
		return keyfuncs.All(s.conditions(v)...)
	case "any":
		return keyfuncs.Any(s.conditions(v)...)
	case "not":
		return keyfuncs.Not(s.condition(v))
	}
	return never
}

func (s *scope) tokens(n *node) keyfuncs.Condition {
	values := n.get("values")
	tokens := make([]string, 0, len(values.items))
	for _, item := range values.items {
		token, ok := s.secretOf(item)
		if !ok {
			return never
		}
		tokens = append(tokens, token)
	}
	return keyfuncs.Tokens(n.get("header").string(), tokens...)
}

// headerIs holds for requests with a header of one of these values, or of any if there are none.
func headerIs(name string, values []string) keyfuncs.Condition {
	return keyfuncs.Matches(func(r keyfuncs.Request) bool {
		value := keyfuncs.HeaderOf(r, name)
		return value != "" && (values == nil || slices.Contains(values, value))
	})
}

func valueIs(value func(keyfuncs.Request) string, is []string) keyfuncs.Condition {
	return keyfuncs.Matches(func(r keyfuncs.Request) bool {
		found := value(r)
		return found != "" && slices.Contains(is, found)
	})
}

func (s *scope) namedCondition(n *node) keyfuncs.Condition {
	if given, ok := s.options.Conditions[n.text]; ok {
		return given
	}
	if s.options.AnyName {
		name := n.text
		return keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value(name) == true }) // no other value is a yes
	}
	s.unknown(n, "condition", "Conditions", namesOf(s.options.Conditions))
	return never
}

// value returns the function of a value. After a problem it returns one without values.
func (s *scope) value(n *node) func(keyfuncs.Request) string {
	if header := n.get("header"); header != nil {
		name := header.text
		if err := keyfuncs.Header(name).Err(); err != nil {
			s.add(header, "%s", unprefixed(err))
		}
		return func(r keyfuncs.Request) string { return keyfuncs.HeaderOf(r, name) }
	}
	if stored := n.get("stored"); stored != nil {
		return storedText(stored.text)
	}
	if given, ok := s.options.Values[n.text]; ok {
		return given
	}
	if s.options.AnyName {
		return storedText(n.text)
	}
	s.unknown(n, "value", "Values", namesOf(s.options.Values))
	return func(keyfuncs.Request) string { return "" }
}

func storedText(name string) func(keyfuncs.Request) string {
	return func(r keyfuncs.Request) string {
		text, _ := r.Value(name).(string)
		return text
	}
}

// unknown adds the problem of a name that the application has not given.
func (s *scope) unknown(n *node, what, field string, names []string) {
	there := "the application has given none in policy.Options." + field
	if len(names) > 0 {
		there = "the application has given " + among(names)
	}
	if best := spelling.Meant(n.text, names); best != "" {
		s.add(n, "unknown %s %s%s", what, spelling.Quote(n.text), best)
		return
	}
	s.add(n, "unknown %s %s; %s", what, spelling.Quote(n.text), there)
}
