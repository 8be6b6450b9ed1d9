package migrate

import (
	"time"

	ratelimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func ginRateLimit(r *gin.Engine) {
	store := ratelimit.InMemoryStore(&ratelimit.InMemoryOptions{Rate: time.Minute, Limit: 10})
	r.Use(ratelimit.RateLimiter(store, nil))
}

func fromGinRateLimit(r *gin.Engine) {
	limits := ginlimit.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimit})
	r.Use(limits.Limit(core.PerMinute(10).FixedWindow().By(keyfuncs.ClientIP(), keyfuncs.Route())))
}
