package mutants

// services are mistakes of the limiter for others: HTTP, gateways, Envoy and the client.
var services = []Mutant{
	{File: "service/guard.go", Old: "\tif len(lines) != 1 {\n\t\treturn false\n\t}\n", New: "\tif len(lines) < 1 {\n\t\treturn false\n\t}\n", What: "the first of two tokens opens the service", Tests: "service"},
	{File: "service/guard.go", Old: "if browser.FromPage(r) {", New: "if false {", What: "a web page may ask the service", Tests: "service cmd/weblimitd"},
	{File: "service/guard.go", Old: "body := http.MaxBytesReader(w, r.Body, int64(s.config.MaxBody))", New: "body := r.Body", What: "a body of unknown length is read whole", Tests: "service"},
	{File: "service/checks.go", Old: "if left -= len(c.checks); left < 0 {", New: "if left < 0 {", What: "checks are counted per call and not in all", Tests: "service"},
	{File: "service/reservation.go", Old: "n.Jitter, h.Estimate = r.int() == 1, r.int() == 1", New: "h.Estimate, n.Jitter = r.int() == 1, r.int() == 1", What: "a reservation's estimate is taken for something else", Tests: "service"},
	{File: "service/settle.go", Old: "\tif age > s.config.ReservationTTL {\n", New: "\tif false {\n", What: "a reservation can be settled for ever", Tests: "service"},
	{File: "service/settle.go", Old: "\tcase !first:\n", New: "\tcase false:\n", What: "a reservation is settled twice", Tests: "service"},
	{File: "service/gateway/original.go", Old: "\tcase len(lines) > 1:\n\t\treturn severalLines\n", New: "", What: "of two X-Forwarded-Uri the client's is believed", Tests: "service/gateway"},
	{File: "service/gateway/original.go", Old: "\tcase hidden[name]:\n\t\treturn \"\", false\n", New: "", What: "behind a gateway the client names its address in CF-Connecting-IP", Tests: "service/gateway"},
	{File: "service/gateway/way.go", Old: "keyfuncs.Yes {\n\t\treturn \"the subrequest does not have", New: "keyfuncs.Yes && false {\n\t\treturn \"the subrequest does not have", What: "a gateway needs no token", Tests: "service/gateway"},
	{File: "service/client/breaker.go", Old: "\t\tb.failures = 0\n", New: "", What: "the client's breaker counts failures that are not in a row", Tests: "service/client"},
	{File: "service/client/breaker.go", Old: "\t\tb.probe = now.Add(b.client.config.Timeout + later())\n", New: "", What: "all requests probe a service that is away", Tests: "service/client"},
	{File: "service/envoy/decide.go", Old: "\t\tif a.rule != nil && !a.rule.unlimited && replaced[a.rule.limit.GetName()] {\n\t\t\ta.rule = nil\n\t\t}\n", New: "", What: "a limit that another replaces counts, too", Tests: "service/envoy"},
	{File: "service/envoy/decide.go", Old: "q.back[i].Cost = 0 // a denied request changes nothing", New: "_ = i", What: "a denied request of Envoy gives units back", Tests: "service/envoy"},
	{File: "core/catalog.go", Old: "\t\tspends := c.how[i]&askSpent != 0 && check.Cost > 0\n", New: "\t\tspends := c.how[i]&askSpent != 0 && check.Cost > 0 && !check.Shadow\n", What: "what a response has cost is free where it denies nothing", Tests: "core/adapter service/envoy"},
	{File: "service/envoy/wire.go", Old: "text != nil && len(to.Descriptors) <= most.descriptors:", New: "text != nil:", What: "descriptors are counted after they have taken memory", Tests: "service/envoy"},
	{File: "service/envoy/answer.go", Old: "case over && !quota:\n", New: "case over && !quota && nearest == nil:\n", What: "headers are not those of the limit that denies", Tests: "service/envoy"},
	{File: "internal/wholefile/all.go", Old: "last.isOld() && slices.EqualFunc(last, look(names), reading.is)", New: "last.isOld()", What: "files of two versions are read as one", Tests: "internal/wholefile"},
	{File: "cmd/weblimitd/inherited.go", Old: "o.counts(v) && !o.standsFor(v, name) && ", New: "v.with == \"\" && !o.standsFor(v, name) && ", What: "a variable of envoyproxy/ratelimit beside another is passed over", Tests: "cmd/weblimitd"},
	{File: "service/envoy/key.go", Old: "\tif len(part) <= longestPart && plain(part) {\n", New: "\tif len(part) <= longestPart {\n", What: "an entry's value can look like two entries", Tests: "service/envoy"},
}
