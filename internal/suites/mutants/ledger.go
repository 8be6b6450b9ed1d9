package mutants

// ledger are mistakes of the ledger: units that are lost, counted twice or given to others.
var ledger = []Mutant{
	{File: "quota/internal/terms/allowance.go", Old: "min(max(used-units, 0), a.Credits)", New: "min(used, a.Credits)", What: "credits are used before the included units", Tests: "quota"},
	{File: "quota/internal/terms/allowance.go", Old: "\t\t\tcredits[i].Units -= n\n", New: "", What: "credits are used again in each period", Tests: "quota"},
	{File: "quota/internal/terms/allowance.go", Old: "func (c *Change) counts(start, end int64) bool { return c.At < end && c.expiry() > start }", New: "func (c *Change) counts(start, end int64) bool { return c.At < end }", What: "credits do not expire", Tests: "quota"},
	{File: "quota/internal/terms/change.go", Old: "\tif *c == again {\n", New: "\tif c.Operation == again.Operation {\n", What: "an operation that is repeated with other numbers is taken for the same", Tests: "quota"},
	{File: "quota/flusher.go", Old: "\t\tb.table.GiveBack(states)\n\t\tif ctx.Err()", New: "\t\tif ctx.Err()", What: "units whose flush has failed are forgotten", Tests: "quota"},
	{File: "quota/opener.go", Old: "\tcase o.away && now.Before(o.probe):\n\t\treturn nil, errAway\n", New: "", What: "a ledger that is away is asked for each request", Tests: "quota"},
	{File: "quota/internal/delivery/export.go", Old: "\tif !isPermanent(err) {", New: "\tif false {", What: "a receiver that is away for a moment refuses for good", Tests: "quota/internal/delivery"},
	{File: "quota/internal/pgledger/export.go", Old: "(lease <= clock_timestamp() OR owner = $2)", New: "lease <= clock_timestamp()", What: "a process waits for the end of its own lease of an export", Tests: "quota"},
	{File: "quota/internal/pgledger/export.go", Old: "least(scanned, now())", New: "scanned", What: "an export passes over periods that ended while PostgreSQL's clock was ahead", Tests: "quota"},
	{File: "core/store/counting/ledger.go", Old: " || now >= b.KeptUntil() {\n\t\treturn false\n\t}\n\tstart, end, _ := r.Period(now)\n\tif b.Expires != start {\n", New: " {\n\t\treturn false\n\t}\n\t_, end, _ := r.Period(now)\n\tif false {\n", What: "an account of an earlier period than the one before begins by itself", Tests: "core/memstore"},
	{File: "quota/internal/memledger/memledger.go", Old: "\t\tn := int64(counting.FirstGeneration + 1)\n", New: "\t\tn := int64(counting.FirstGeneration)\n", What: "the ledger begins generations that stores begin by themselves", Tests: "quota"},
	{File: "quota/tenantentry.go", Old: "\tif now.Before(e.ends) {\n\t\treturn e.limit\n\t}\n\treturn e.next\n", New: "\treturn e.limit\n", What: "tenants begin a period with the numbers of the one before", Tests: "quota"},
	{File: "quota/tenantentry.go", Old: "credited: f.Last(terms.ChangeCredit) != nil,", New: "", What: "credits that were used up at the end of a period can be used in the next", Tests: "quota"},
	{File: "quota/unheard.go", Old: "\t\t} else {\n\t\t\tnote(&ledger.Standing{})\n\t\t}\n", New: "\t\t}\n", What: "what a killed process has charged to the last account of the book that began by itself is lost", Tests: "quota"},
	{File: "quota/internal/delivery/channel.go", Old: "d.Attempts >= c.channel.Attempts", New: "d.Attempts > c.channel.Attempts", What: "a notice is tried once too often", Tests: "quota/internal/delivery"},
	{File: "quota/internal/delivery/loop.go", Old: "min(r.RetryAfter, MaxRetryAfter)", New: "r.RetryAfter", What: "a receiver puts a notice off for ever", Tests: "quota/internal/delivery"},
	{File: "quota/internal/delivery/channel.go", Old: "\tif err != nil && delivering.Err() != nil {\n\t\ts = ledger.Settlement", New: "\tif false {\n\t\ts = ledger.Settlement", What: "an attempt that a shutdown has ended counts", Tests: "quota"},
	{File: "quota/internal/delivery/loop.go", Old: "\t\t\terr = fmt.Errorf(\"%s panicked: %v\", name, r)\n", New: "\t\t\t_ = r\n", What: "a notice whose delivery panics counts as delivered", Tests: "quota"},
	{File: "quota/internal/accounts/table.go", Old: "\tif v.Position <= n.position && n.at != 0 {", New: "\tif false {", What: "a state that is told late replaces a newer one", Tests: "quota"},
	{File: "quota/internal/accounts/table.go", Old: "\t\t\tn.levels |= a.State.levels\n", New: "", What: "a level is not noticed if its first flush fails", Tests: "quota"},
	{File: "quota/internal/accounts/table.go", Old: "if e.idle() && !e.seen {", New: "if !e.seen {", What: "what the ledger has not been told is forgotten by the sweep", Tests: "quota"},
	{File: "quota/internal/ledger/ledger.go", Old: "a.Start < s.To", New: "a.Start <= s.To", What: "a query has the period that begins where it ends", Tests: "quota"},
	{File: "quota/internal/ledger/notice.go", Old: "percent) + 99) / 100", New: "percent) + 0) / 100", What: "a level is noticed before it is reached", Tests: "quota"},
}
