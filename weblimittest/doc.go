// Package weblimittest tests applications that use weblimit: a store whose clock the test
// moves, clients who have used up a limit or are blocked, outages, and assertions on
// responses. It works with every adapter, in memory, and without waiting.
//
//	store := weblimittest.New(t)
//	app := newApp(store) // the application under test, which takes its store as a parameter
//
//	store.Exhaust("login")
//	response := post(app, "/login")
//	weblimittest.Denied(t, response, "login")
//
//	store.Advance(weblimittest.RetryAfter(t, response))
//	weblimittest.Allowed(t, post(app, "/login"))
//
// It imports the standard library and weblimit itself, and no framework.
package weblimittest
