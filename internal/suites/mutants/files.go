package mutants

// files are mistakes with policy files.
var files = []Mutant{
	{File: "policy/yamlfile/yamlfile.go", Old: "if first, twice := k[name]; twice {", New: "if first, twice := k[name]; twice && first < 0 {", What: "a field that is there twice counts once", Tests: "policy policy/yamlfile"},
	{File: "policy/yamlfile/yamlfile.go", Old: "\tif r.values > r.format.Values {\n", New: "\tif false {\n", What: "aliases of aliases explode", Tests: "policy policy/yamlfile"},
	{File: "policy/yamlfile/yamlfile.go", Old: "\t\terr = decoder.Decode(&second)\n", New: "\t\terr = io.EOF\n", What: "the second document of a file is passed over", Tests: "policy policy/yamlfile"},
	{File: "policy/trial.go", Old: "\tcase written.get(\"remaining\") != nil && written.get(\"remaining\").integer() != remaining:\n", New: "\tcase false:\n", What: "a test of a policy passes whatever is left", Tests: "policy"},
	{File: "policy/limit.go", Old: "\tif group != nil {\n\t\tl = l.When(*group)\n\t}\n", New: "\t_ = group\n", What: "a policy's limits count requests that the policy is not about", Tests: "policy"},
	{File: "policy/limit.go", Old: "l = l.OnMissingKey(core.MissingKey(slices.Index(missingKeys, missing.text)))", New: "_ = missing", What: "on_missing_key of a policy does nothing", Tests: "policy"},
	{File: "policy/limit.go", Old: "if !s.chosen[name] && (shadow || n.get(\"shadow\").isTrue()) {", New: "if !s.chosen[name] && n.get(\"shadow\").isTrue() {", What: "a policy in shadow mode denies", Tests: "policy"},
	{File: "policy/limit.go", Old: "\tif len(on) == 1 {\n", New: "\tif len(on) > 0 {\n", What: "of several reasons for a refund the first counts alone", Tests: "policy"},
	{File: "policy/limit.go", Old: "case isConcurrent(tier) != isConcurrent(l):", New: "case false:", What: "a tier counts concurrent requests under a limit on requests", Tests: "policy"},
	{File: "policy/condition.go", Old: "return keyfuncs.Any(s.conditions(v)...)", New: "return keyfuncs.All(s.conditions(v)...)", What: "any condition of a policy means all", Tests: "policy"},
	{File: "policy/condition.go", Old: "return strategy.FromCIDR(v.texts()...)", New: "_ = strategy", What: "the addresses of a policy's condition are those of the proxy", Tests: "policy"},
	{File: "policy/condition.go", Old: "value != \"\" && (values == nil || slices.Contains(values, value))", New: "values == nil || slices.Contains(values, value)", What: "a header that is missing fulfills a condition", Tests: "policy"},
	{File: "policy/rewrite.go", Old: "if err != nil || !slices.Equal(before, after) {", New: "if err != nil || false && !slices.Equal(before, after) {", What: "formatting changes what a file says", Tests: "policy"},
	{File: "policy/redissource/archive.go", Old: "\t\tmax(after, -1), file.Name", New: "\t\tint64(-1), file.Name", What: "of two releases at the same time the later replaces the other unseen", Tests: "policy/redissource"},
}
