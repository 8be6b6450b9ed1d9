package mutants

// models are mistakes in what is read of calls of language models.
var models = []Mutant{
	{File: "llmlimit/spent.go", Old: "if !told.OutputTold && !failed || !c.Trusted {", New: "if !told.OutputTold && !failed {", What: "an upstream that is not trusted lowers a charge", Tests: "llmlimit"},
	{File: "llmlimit/tally.go", Old: "r.Input = capped(r.Input + r.CacheRead + r.CacheWrite)", New: "r.Input = capped(r.Input)", What: "cached tokens of Anthropic are not counted", Tests: "llmlimit"},
	{File: "llmlimit/frames.go", Old: "\t\t\tinto.add(&f.staged)\n", New: "", What: "nothing is read of Amazon's event streams", Tests: "llmlimit"},
	{File: "llmlimit/body.go", Old: "\tb.settle(nil)\n\treturn b.rest.Close()", New: "\treturn b.rest.Close()", What: "a stream that is closed before its end is not settled", Tests: "llmlimit"},
	{File: "llmlimit/request.go", Old: "r.models != 1 || r.doubtful ||", New: "r.models == 0 || r.doubtful ||", What: "of two models in a request the last one counts", Tests: "llmlimit"},
	{File: "llmlimit/headers.go", Old: "d.RetryAfter == 0 || d.RetryAfter >= longestWait", New: "d.RetryAfter == 0", What: "libraries of models come back early from a wait of a minute", Tests: "llmlimit"},
	{File: "llmlimit/mcp/tools.go", Old: "\t\tcase c.doubt:\n\t\t\treturn true\n", New: "\t\tcase c.doubt:\n\t\t\treturn false\n", What: "a batch of calls of tools escapes the limits of each", Tests: "llmlimit/mcp"},
}
