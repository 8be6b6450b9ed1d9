package mutants

// keys are mistakes in who is limited.
var keys = []Mutant{
	{File: "keyfuncs/chain.go", Old: "if !ok || !trusted.contains(addr) {", New: "if !ok {", What: "X-Forwarded-For is read from everybody", Tests: "keyfuncs"},
	{File: "keyfuncs/chain.go", Old: "ok = parseAddr(entry); !ok {\n\t\t\t\treturn netip.Addr{}, false\n", New: "ok = parseAddr(entry); !ok {\n\t\t\t\tcontinue\n", What: "an entry that is no address is walked past", Tests: "keyfuncs"},
	{File: "keyfuncs/chain.go", Old: "\tc.rest, entry, c.more = c.cut(c.rest)\n", New: "\tc.rest, entry, c.more = c.cut(c.rest)\n\tc.lines = 0\n", What: "only the last line of X-Forwarded-For is read", Tests: "keyfuncs"},
	{File: "keyfuncs/tokens.go", Old: "found |= subtle", New: "found = subtle", What: "of several bypass tokens only the last is known", Tests: "keyfuncs"},
	{File: "keyfuncs/apikey.go", Old: "if presence == Ambiguous || found != \"\" && value != \"\" && value != found {\n\t\t\t\treturn dst, Ambiguous", New: "if presence == Ambiguous {\n\t\t\t\treturn dst, Ambiguous", What: "of two API keys in two headers the last counts", Tests: "keyfuncs"},
	{File: "keyfuncs/combine.go", Old: "\t\t\tif i > 0 {\n\t\t\t\tdst = append(dst, '|')\n\t\t\t}\n", New: "\t\t\t_ = i\n", What: "joined keys run into each other", Tests: "keyfuncs"},
}
