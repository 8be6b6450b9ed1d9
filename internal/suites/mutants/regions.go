package mutants

// regional are mistakes of limits over several regions.
var regional = []Mutant{
	{File: "regions/ask.go", Old: "\t\tcase r.Charged || r.Repeated:\n", New: "\t\tcase r.Charged || r.Repeated || p.pool != nil:\n", What: "a region hands out units that home has not charged", Tests: "regions internal/suites/regions"},
	{File: "regions/ask.go", Old: "\tcase end != 0 && end != ends:\n", New: "\tcase false && end != ends:\n", What: "a lease of one window counts in another", Tests: "regions internal/suites/regions"},
	{File: "regions/take.go", Old: "p.from == fromShare && c.results[n].At >= p.ends {", New: "p.from == fromShare && c.results[n].At < 0 {", What: "what is left of a share can be spent after its period", Tests: "regions internal/suites/regions"},
	{File: "regions/take.go", Old: "\terr := s.home.Take(ctx, c.homeChecks, c.homeResults)\n", New: "\terr := s.local.Take(ctx, c.homeChecks, c.homeResults)\n", What: "a region decides what home is to decide", Tests: "regions internal/suites/prove"},
}
