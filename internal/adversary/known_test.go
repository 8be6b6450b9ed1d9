package adversary

// known are failures that are being repaired. THE LIST IS TO BE EMPTY: each entry
// goes with its repair, and what it names is then a failure like any other.
var known = []struct {
	finding string
	is      func(j *judge, c *caller, w *wrong) bool
}{
	{"failing and leaving is free", func(j *judge, _ *caller, w *wrong) bool { return j.setup.rules[0].refunds && w.kind != "not served" }},
}
