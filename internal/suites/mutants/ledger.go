package mutants

// ledger are mistakes of the ledger: units that are lost, counted twice or given to others.
var ledger = []Mutant{
	{File: "quota/change.go", Old: "min(max(used-units, 0), a.Credits)", New: "min(used, a.Credits)", What: "credits are used before the included units", Tests: "quota"},
	{File: "quota/change.go", Old: "\t\t\tcredits[i].units -= n\n", New: "", What: "credits are used again in each period", Tests: "quota"},
	{File: "quota/change.go", Old: "func (c *change) counts(start, end int64) bool { return c.at < end && c.expiry() > start }", New: "func (c *change) counts(start, end int64) bool { return c.at < end }", What: "credits do not expire", Tests: "quota"},
	{File: "quota/change.go", Old: "\tif *c == again {\n", New: "\tif c.operation == again.operation {\n", What: "an operation that is repeated with other numbers is taken for the same", Tests: "quota"},
	{File: "quota/flusher.go", Old: "\t\tb.table.giveBack(states)\n\t\tb.health.failed(err)\n\t\treturn err\n", New: "\t\tb.health.failed(err)\n\t\treturn err\n", What: "units whose flush has failed are forgotten", Tests: "quota"},
	{File: "quota/opener.go", Old: "\tcase o.away && now.Before(o.probe):\n\t\treturn nil, errAway\n", New: "", What: "a ledger that is away is asked for each request", Tests: "quota"},
	{File: "quota/sender.go", Old: "if !errors.As(err, &e) || !e.Permanent {", New: "if errors.As(err, &e) && false {", What: "a receiver that is away for a moment refuses for good", Tests: "quota"},
	{File: "quota/pgexport.go", Old: "(lease <= clock_timestamp() OR owner = $2)", New: "lease <= clock_timestamp()", What: "a process waits for the end of its own lease of an export", Tests: "quota"},
	{File: "quota/pgexport.go", Old: "least(scanned, now())", New: "scanned", What: "an export passes over periods that ended while PostgreSQL's clock was ahead", Tests: "quota"},
	{File: "core/store/ledger.go", Old: "\tif b.Expires != present.start {\n\t\treturn false\n\t}\n", New: "", What: "an account of an earlier period than the one before begins by itself", Tests: "core/memstore"},
	{File: "quota/memoryledger.go", Old: "\t\tn := int64(store.FirstGeneration + 1)\n", New: "\t\tn := int64(store.FirstGeneration)\n", What: "the ledger begins generations that stores begin by themselves", Tests: "quota"},
	{File: "quota/tenantentry.go", Old: "\tif now.Before(e.ends) {\n\t\treturn e.limit\n\t}\n\treturn e.next\n", New: "\treturn e.limit\n", What: "tenants begin a period with the numbers of the one before", Tests: "quota"},
	{File: "quota/tenantentry.go", Old: "credited: f.last(changeCredit) != nil,", New: "", What: "credits that were used up at the end of a period can be used in the next", Tests: "quota"},
	{File: "quota/unheard.go", Old: "\t\t} else {\n\t\t\tnote(&standing{})\n\t\t}\n", New: "\t\t}\n", What: "what a killed process has charged to the last account of the book that began by itself is lost", Tests: "quota"},
}
