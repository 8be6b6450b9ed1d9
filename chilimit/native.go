package chilimit

import (
	"net/http"

	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Key returns a key that a function of yours makes of the request, where "" means that it has
// none:
//
//	chilimit.Key("item", func(r *http.Request) string { return chi.URLParam(r, "id") })
//
// It is [keyfuncs.Custom] with an *http.Request: kind, escaping and security are as there. The
// function must not read the body. chi.URLParam is known in With and Group, behind the route, and "" in Use.
//
// It serves the adapters over net/http: nethttp, chilimit, ginlimit and echolimit. Another adapter
// panics at start-up. Where there is no adapter, as in [core.Limiter.Allow] with a request of your
// own, the key is missing.
func Key(kind string, f func(r *http.Request) string) keyfuncs.Func {
	return adapter.Key(kind, stdhttp.Native, f)
}

// Matches returns a condition that a function of yours decides, for [core.Limit.When],
// [core.Limit.Unless], Config.Bypass and combinations of conditions:
//
//	chilimit.Matches(func(r *http.Request) bool { return r.ContentLength > 1<<20 })
//
// It is [keyfuncs.Matches] with an *http.Request, and safe as there. It serves the adapters of
// [Key]. Where there is no adapter its answer is [keyfuncs.Unknown]: a limit applies, and an
// exemption does not.
func Matches(f func(r *http.Request) bool) keyfuncs.Condition {
	return adapter.Matches(stdhttp.Native, f)
}
