// Package quota keeps what calendar limits have counted in a book that a business can bill on:
// in PostgreSQL, beside the store that decides. It is a module of its own.
//
//	book, err := quota.Open(ctx, pool, quota.Config{Store: redisstore.New(rdb)})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer book.Close(ctx)
//	plan := core.PerBillingMonth(100_000, 31, berlin).By(keyfuncs.Tenant("tenant")).Named("plan")
//	r.Use(ginlimit.Limit(book.Store(), perSecond, plan))
//
// Requests are decided by the store, as without a book: one round trip to Redis. What was used is
// written behind, every Config.FlushEvery, as absolute numbers: writing them twice, or by
// two processes, changes nothing. A store that has lost what a client has used is told by the
// book before it grants that client anything.
//
// docs/bill/quotas.md says what is guaranteed, how large the tables become, and how to
// operate them.
//
// # Words
//
// An account is what one key has used of one limit in one period. A tenant is a key as the limit
// counts it, such as keyfuncs.Encode("tenant", "acme"). The ledger is where the book's truth is:
// PostgreSQL for [Open], this process for [InMemory].
package quota
