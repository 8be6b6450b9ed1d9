package adversary

import "strings"

// known are failures that are being repaired. THE LIST IS TO BE EMPTY: each entry
// goes with its repair, and what it names is then a failure like any other.
var known = []struct {
	finding string
	is      func(j *judge, c *caller, w *wrong) bool
}{
	{"preflights are exempt", func(_ *judge, c *caller, _ *wrong) bool {
		return c != nil && c.method == "OPTIONS" && len(c.lines("Origin")) == 1 && len(c.lines("Access-Control-Request-Method")) == 1 && len(c.visit.asked) == 0
	}},
	{"preflights are exempt", func(_ *judge, c *caller, w *wrong) bool {
		return c == nil && w.kind == "not counted" && strings.Contains(w.text, "OPTIONS")
	}},
	{"Fiber: trailers are read as headers", func(j *judge, c *caller, _ *wrong) bool {
		return j.framework.name == "fiber" && c != nil && len(c.trailers) > 0
	}},
	{"ambiguous requests are served", func(_ *judge, c *caller, w *wrong) bool {
		return strings.Contains(w.kind, "Bad Request") || w.kind == "another status" && strings.HasSuffix(w.text, "400")
	}},
	{"blanks make new keys", func(_ *judge, c *caller, w *wrong) bool {
		return w.kind == "another key" || w.kind == "a bypass that is counted"
	}},
	{"failing and leaving is free", func(j *judge, _ *caller, w *wrong) bool { return j.setup.rules[0].refunds && w.kind != "not served" }},
}
