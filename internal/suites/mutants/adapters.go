package mutants

// adapters are mistakes between the frameworks and the limiter.
var adapters = []Mutant{
	{File: "ginlimit/ginlimit.go", Old: "\tc.Abort()\n\tif h.config.Denied", New: "\tif h.config.Denied", What: "a request that Gin's adapter denies reaches the handler", Tests: "ginlimit"},
	{File: "internal/stdhttp/deny.go", Old: "\th := w.Header()\n\tclearStale(h)\n", New: "\th := w.Header()\n", What: "an ETag of outer middleware stays on a denial", Tests: "internal/stdhttp nethttp"},
	{File: "internal/stdhttp/deny.go", Old: "h[\"Cache-Control\"], h[\"Content-Type\"] = values[:1:1], values[1:2:2]", New: "h[\"Content-Type\"] = values[1:2:2]", What: "a denial may be kept by caches", Tests: "internal/stdhttp nethttp"},
	{File: "internal/stdhttp/follow.go", Old: "o.Canceled || f.client.broke() || isTooLarge(o.Err)", New: "o.Canceled || isTooLarge(o.Err)", What: "a client that breaks off gets its units back", Tests: "internal/stdhttp nethttp"},
	{File: "internal/stdhttp/follow.go", Old: "\to.Panicked = true\n", New: "", What: "a panic of the handler is no server error", Tests: "internal/stdhttp nethttp"},
	{File: "internal/stdhttp/follow.go", Old: "f.outcome.Status != 0 || code < 200 &&", New: "f.outcome.Status != 0 || false && code < 200 &&", What: "an interim response is taken for the answer", Tests: "internal/stdhttp nethttp"},
	{File: "internal/stdhttp/denied.go", Old: "begun = begun || code >= http.StatusOK || code == http.StatusSwitchingProtocols", New: "begun = true", What: "an interim response of a Denied hook is taken for its answer", Tests: "internal/stdhttp nethttp"},
	{File: "chilimit/mounts.go", Old: "\t\tm.rewritten.Store(true)\n", New: "\t\tm.rewritten.Store(false)\n", What: "chi's adapter believes a route after the path was rewritten", Tests: "chilimit"},
	{File: "echolimit/version.go", Old: "\tif err == nil && !c.Response().Committed {", New: "\tif err == nil && false {", What: "a Denied hook on Echo that does nothing answers 200", Tests: "echolimit"},
	{File: "fiberlimit/request.go", Old: "\tif value := r.c.Locals(key); value != nil {\n\t\treturn value\n\t}\n", New: "", What: "Fiber's locals are no values for keys", Tests: "fiberlimit"},
	{File: "fiberlimit/request.go", Old: "\tr.fields.Reset()\n", New: "", What: "on Fiber the header fields of one request are those of the next", Tests: "fiberlimit"},
	{File: "fiber3limit/fiber3limit.go", Old: "\t\tin.own = adapter.Context{}\n\t\tin.release()\n\t\treturn allowed, lost\n", New: "\t\tin.release()\n\t\treturn &in.own.Decision, lost\n", What: "a decision on Fiber 3 is read after it was given back", Tests: "fiber3limit"},
	{File: "grpclimit/deny.go", Old: "a client that waits gets no further\n\t\treturn \"-1\"", New: "a client that waits gets no further\n\t\treturn \"0\"", What: "a gRPC client is to try again at once what can never pass", Tests: "grpclimit"},
	{File: "grpclimit/deny.go", Old: "if r.Allowed || !r.Enforced() || r.Hidden {", New: "if r.Allowed || r.Hidden {", What: "a limit in shadow mode is named as violated", Tests: "grpclimit"},
	{File: "echo5limit/version.go", Old: "\tif err == nil && !answered {", New: "\tif err == nil && false {", What: "a Denied hook on Echo 5 that does nothing answers 200", Tests: "echo5limit"},
	{File: "internal/stdhttp/guard.go", Old: "if skip != nil && skip(r) {", New: "if false {", What: "a guard of net/http asks for a request that Skip lets through", Tests: "nethttp"},
	{File: "internal/stdhttp/guard.go", Old: "\t\treturn d.Allowed\n", New: "\t\treturn true\n", What: "a handler goes on after its guard has denied", Tests: "nethttp"},
	{File: "grpclimit/outcome.go", Old: "o.TimedOut, o.Canceled = true, true", New: "o.TimedOut = true", What: "a gRPC call gets its units back when it meets the deadline that its client chose", Tests: "grpclimit"},
	{File: "grpclimit/outcome.go", Old: "!o.TimedOut || x.clientEnded()", New: "!o.TimedOut", What: "a deadline of the client is taken for one of the server", Tests: "grpclimit"},
}
