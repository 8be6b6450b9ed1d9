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

// newAPI returns the API on a store. Requests with the bypass token in X-Bypass-Token
// are not counted. The token has at least 16 bytes.
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

	// The limits of a route apply in addition to those of its group. Addresses are
	// counted first; then API keys are checked, and then counted.
	v1 := r.Group("/v1", limit(perAddress), checkKey, limit(perKey))
	v1.GET("/items", done)
	v1.GET("/search", limit(perKeySearch), done)
	v1.GET("/export", limit(perKeyExport), done)

	r.Group("/app", limit(plan)).GET("/report", done)
	return r, failed
}

func done(c *gin.Context) { c.String(http.StatusOK, "done\n") }

// customers stands in for a user database: the plan of each user.
var customers = map[string]string{"alice": "free", "bob": "basic", "carol": "premium"}

// authenticate stands in for real authentication: the bearer token is the user's
// name. Limits by user run behind it, so they count verified users only.
func authenticate(c *gin.Context) {
	name, found := strings.CutPrefix(c.GetHeader("Authorization"), "Bearer ")
	if plan, known := customers[name]; found && known {
		c.Set("user", name)
		c.Set("plan", plan)
	}
}

// keys stands in for a table of API keys: a real one holds hashes.
var keys = map[string]bool{"one": true, "two": true, "three": true}

// checkKey refuses unknown API keys. A limit by made-up keys would limit nobody, and
// leave an entry in the store for each key.
func checkKey(c *gin.Context) {
	if sent := c.Request.Header["X-Api-Key"]; len(sent) != 1 || !keys[sent[0]] {
		c.String(http.StatusUnauthorized, "no such key\n")
		c.Abort()
	}
}
