package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// newAPI returns the API on a store. A bypass token of at least 16 bytes lets
// those who send it in X-Bypass-Token through without being counted.
func newAPI(store core.Store, bypassToken string) (*gin.Engine, error) {
	bypass := []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")}
	if bypassToken != "" {
		bypass = append(bypass, keyfuncs.Tokens("X-Bypass-Token", bypassToken))
	}
	var failed error
	limit := func(limits ...core.Limit) gin.HandlerFunc {
		limiter, err := core.New(core.Config{
			Store:   store,
			Limits:  limits,
			Bypass:  bypass,
			Headers: core.Draft11 | core.XRateLimit,
			OnWarning: func(_ context.Context, w core.Warning) {
				slog.Info("client nears a limit", "limit", w.Limit, "level", w.Level, "key", w.Key)
			},
		})
		if err != nil {
			failed = err
			return func(*gin.Context) {}
		}
		return ginlimit.New(limiter)
	}

	r := gin.New()
	r.Use(gin.Recovery(), authenticate)
	r.GET("/healthz", done)
	r.POST("/login", limit(login), done)
	r.POST("/otp", limit(otp), done)
	r.POST("/webhooks/:provider", limit(webhooks), done)
	r.GET("/search", limit(anonymousSearch), done)

	articles := r.Group("/articles")
	articles.GET("", limit(reads), done)
	articles.POST("", limit(mutations), done)
	r.POST("/uploads", limit(uploads), done)
	r.POST("/ai", limit(ai), done)

	// The limits of a route are counted on top of those of its group. API keys are
	// checked before they are counted, and addresses before that.
	v1 := r.Group("/v1", limit(perAddress), checkKey, limit(perKey))
	v1.GET("/items", done)
	v1.GET("/search", limit(perKeySearch), done)
	v1.GET("/export", limit(perKeyExport), done)

	r.Group("/app", limit(plan)).GET("/report", done)
	return r, failed
}

func done(c *gin.Context) { c.String(http.StatusOK, "done\n") }

// customers stand in for a user database: who has which plan.
var customers = map[string]string{"alice": "free", "bob": "basic", "carol": "premium"}

// authenticate stands in for real authentication: the bearer token is the user's
// name. Limits run behind it, so that a user is only who has been checked.
func authenticate(c *gin.Context) {
	name, found := strings.CutPrefix(c.GetHeader("Authorization"), "Bearer ")
	if plan, known := customers[name]; found && known {
		c.Set("user", name)
		c.Set("plan", plan)
	}
}

// keys stand in for a table of API keys: a real one holds hashes.
var keys = map[string]bool{"one": true, "two": true, "three": true}

// checkKey turns away API keys that nobody was given. A limit by a key that somebody
// made up would be a limit for nobody, and leave an entry in the store for each.
func checkKey(c *gin.Context) {
	if sent := c.Request.Header["X-Api-Key"]; len(sent) != 1 || !keys[sent[0]] {
		c.String(http.StatusUnauthorized, "no such key\n")
		c.Abort()
	}
}
