package examples

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/quota"
	"github.com/weblimit/weblimit/usage"
)

// The code of docs/use/usage.md.

func ownLimits(mux *http.ServeMux, store core.Store, limiter *core.Limiter, authenticate func(http.Handler) http.Handler) {
	limits := nethttp.With(core.Config{Store: store})
	polls := limits.Limit(core.PerMinute(10).By(keyfuncs.User("user")).Named("polls"))
	own := usage.New(usage.Config{Limiters: []*core.Limiter{limiter}})
	mux.Handle("GET /rate_limit", authenticate(polls(nethttp.Usage(own))))
}

func ownLimitsByGin(r *gin.Engine, polls gin.HandlerFunc, own *usage.Usage) {
	r.GET("/rate_limit", polls, ginlimit.Usage(own))
}

func ownDays(book *quota.Book, limiter *core.Limiter) *usage.Usage {
	return usage.New(usage.Config{Limiters: []*core.Limiter{limiter}, Days: book.UsedByDay})
}

func planAndAbuse() []core.Limit {
	user := keyfuncs.User("user")
	return []core.Limit{
		core.PerMonth(100_000, time.UTC).By(user).Named("plan").Status(402),
		core.PerMinute(3000).By(user).Named("against-abuse").Hidden(),
	}
}

var _ = []any{ownLimits, ownLimitsByGin, ownDays, planAndAbuse}
