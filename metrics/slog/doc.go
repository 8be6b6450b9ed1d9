// Package weblimitslog logs denied requests through log/slog, at most one line per limit and
// second, however many are denied. Its folder is metrics/slog:
//
//	import weblimitslog "github.com/weblimit/weblimit/metrics/slog"
//
//	denials, err := weblimitslog.New(weblimitslog.Config{})
//	limits := ginlimit.With(core.Config{Store: store, Observe: denials})
//
// A line says which limit denied which request, and why:
//
//	INFO weblimit: request denied limit=login reason="limit exceeded" key=5f1c2a9be07d4436 retry_after=41s
//	    adapter=gin method=POST route=/login suppressed=118
//
// Requests that a limit in shadow mode would have denied have lines of their own:
// "weblimit: request would be denied", with shadow=true.
//
// # Sampling
//
// After a line, further denials of the same limit are counted for a second. The next line has their
// number as "suppressed". If none comes within another second, a line "weblimit: requests denied"
// with nothing but the number follows. So the lines and their numbers add up to all denials. At
// shutdown, call [Observer.Flush].
//
// # What is in a line
//
// The key is hashed with a secret, so that lines of one client can be found together, but nobody
// who reads the log learns who it is, or can find out by trying addresses or names. Without
// Config.Secret the hashes of each process differ, and those of an earlier run do, too. Config.Key
// names clients instead. Tenant, trace and the like come from Config.Attrs, which reads the request's
// context. The request's path, headers and address are in no line.
//
// Text that a client may have chosen cannot end a line or move a terminal's cursor, whatever the
// handler does: characters that are not printable are escaped, long texts are cut, and unknown
// methods are "other". Handlers that do not quote values, unlike those of log/slog, should.
//
// The store's events and core's advice do not need this package: without it they are logged, too.
package weblimitslog
