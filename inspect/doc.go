// Package inspect is a page for operators, with a JSON API beside it: who is denied and why, what each
// limit lets through, what is blocked, and how the store is. It explains any client, and resets, blocks
// and unblocks it on all instances.
//
//	heavy := top.New(top.Config{Exchange: store.Exchange()}) // of all instances
//	limits := nethttp.With(core.Config{Store: store, Observe: heavy})
//
//	page, err := inspect.New(inspect.Config{
//		Store: store,
//		Top:   heavy,
//		Users: []inspect.User{{Name: "ops", Password: os.Getenv("INSPECT_PASSWORD"), May: inspect.Act}},
//	})
//	mux.Handle("/ops/limits/", page)
//	server.RegisterOnShutdown(page.Close)
//
// A [Handler] serves under any prefix, whether or not the router cuts it off. It loads nothing from
// elsewhere and needs no build step. Nobody is let in by default: [New] wants [Config.Authorize] or
// [Config.Users].
//
// # API
//
// Below the page's path. Times are RFC 3339, durations milliseconds, unless their name says otherwise.
// Fields may be added to version 1; none changes its meaning. Errors are RFC 9457 problems with a
// detail in English.
//
//	GET  api/v1/overview     what the page shows: limits, denied and near clients, instances, store
//	GET  api/v1/stream       the same each two seconds, as server-sent events named overview
//	GET  api/v1/limits       all limits with their rates of two minutes and two hours; ?limit=name for one
//	GET  api/v1/clients      clients of one limit: ?limit=name&by=denied|near|busy&n=50
//	GET  api/v1/blocks       blocks in force; read from the store at most each five seconds
//	GET  api/v1/health       outage, and the breaker of each node, as this process sees them
//	POST api/v1/explain      {"query":"user:42","cost":1}: each limit's numbers, and why it denies
//	POST api/v1/reset        {"key":"user:42","limit":"login"}: forgets what was used, and blocks
//	POST api/v1/block        {"key":"user:42","limit":"login","seconds":3600}
//	POST api/v1/unblock      {"key":"user:42","limit":"login"}
//
// The query of explain is a whole key, or what one is made of: a user, an address, an API key, a label.
// Without a limit, reset and unblock are about all limits. POSTs need Content-Type: application/json and the
// header Weblimit-Inspect with any value, and none may come from a page of another origin. Reads need the
// permission [Read], reset, block and unblock [Act]. A key never stands in a URL, where logs would
// keep it.
//
// # Effect on other instances
//
// A block is in force at once on all instances of a shared store. Its end and a reset are, too, except
// that other instances on Redis repeat a denial for a round trip or so; or for up to
// redisstore.DenialCache.Age, a second by default, if the message that ends it is lost. Over a memory store everything is about this process
// alone, and the page says so.
//
// # Cost
//
// Without a page that looks, nothing runs. Snapshots of other instances are read at most each second,
// however many look, and outside the way of requests.
package inspect
