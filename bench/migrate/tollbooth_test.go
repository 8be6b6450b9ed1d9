package migrate

import (
	"net/http"

	tollboothv7 "github.com/didip/tollbooth/v7"
	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

func tollBooth(mux http.Handler) http.Handler {
	lmt := tollbooth.NewLimiter(10, nil) // a second
	lmt.SetIPLookup(limiter.IPLookup{Name: "RemoteAddr"})
	handler := tollbooth.LimitHandler(lmt, mux)
	return handler
}

func fromTollBooth(mux http.Handler) http.Handler {
	limits := nethttp.With(core.Config{Store: core.NewMemory(), Headers: core.Draft03})
	handler := limits.Limit(core.PerSecond(10).By(keyfuncs.ClientIP(), nethttp.Key("path", path)))(mux)
	return handler
}

func path(r *http.Request) string { return r.URL.Path }

func tollBoothV7(mux http.Handler) http.Handler {
	lmt := tollboothv7.NewLimiter(10, nil)
	handler := tollboothv7.LimitHandler(lmt, mux)
	return handler
}
