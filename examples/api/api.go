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
// are not counted. A token of less than 16 bytes is an error.
func newAPI(store core.Store, bypassToken string) (*gin.Engine, error) {
	bypass := []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")}
	if bypassToken != "" {
		monitoring := keyfuncs.Tokens("X-Bypass-Token", bypassToken)
		if err := monitoring.Err(); err != nil {
			return nil, err
		}
		bypass = append(bypass, monitoring)
	}
	limits := ginlimit.With(core.Config{
		Store:   store,
		Bypass:  bypass,
		Headers: core.Draft11 | core.XRateLimit,
		OnWarning: func(_ context.Context, w core.Warning) {
			slog.Info("client nears a limit", "limit", w.Limit, "level", w.Level, "key", w.Key)
		},
	})

	r := gin.New()
	r.Use(gin.Recovery(), authenticate)
	r.GET("/healthz", done)
	r.POST("/login", limits.Limit(login), done)
	r.POST("/otp", limits.Limit(otp), done)
	r.POST("/webhooks/:provider", limits.Limit(webhooks), done)
	r.GET("/search", limits.Limit(anonymousSearch), done)

	articles := r.Group("/articles")
	articles.GET("", limits.Limit(reads), done)
	articles.POST("", limits.Limit(mutations), done)
	r.POST("/uploads", limits.Limit(uploads), done)
	r.POST("/ai", limits.Limit(ai), done)

	// The limits of a route apply in addition to those of its group. Addresses are
	// counted first; then API keys are checked, and then counted.
	v1 := r.Group("/v1", limits.Limit(perAddress), checkKey, limits.Limit(perKey))
	v1.GET("/items", done)
	v1.GET("/search", limits.Limit(perKeySearch), done)
	v1.GET("/export", limits.Limit(perKeyExport), done)

	r.Group("/app", limits.Limit(plan)).GET("/report", done)
	return r, nil
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
