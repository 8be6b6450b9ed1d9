// Package app is the API of examples/api. It is a package of its own so that tests elsewhere run it.
package app

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

// Config has what differs from place to place.
type Config struct {
	Store core.Store

	// BypassToken exempts requests that have it in X-Bypass-Token. "" exempts none.
	BypassToken string

	// Observe hears of all decisions, for logs, metrics and traces. It may be nil.
	Observe core.Observer

	// Plans stands in for a user database: the plan of each user. Keys stands in for a
	// table of API keys: a real one holds hashes.
	Plans map[string]string
	Keys  map[string]bool
}

// Made-up customers, to try the API out.
var (
	Plans = map[string]string{"alice": "free", "bob": "basic", "carol": "premium"}
	Keys  = map[string]bool{"one": true, "two": true, "three": true}
)

// New returns the API. A bypass token of less than 16 bytes is an error.
func New(config Config) (*gin.Engine, error) {
	bypass := []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")}
	if config.BypassToken != "" {
		monitoring := keyfuncs.Tokens("X-Bypass-Token", config.BypassToken)
		if err := monitoring.Err(); err != nil {
			return nil, err
		}
		bypass = append(bypass, monitoring)
	}
	limits := ginlimit.With(core.Config{
		Store:   config.Store,
		Bypass:  bypass,
		Headers: core.Draft11 | core.XRateLimit,
		Observe: config.Observe,
		OnWarning: func(_ context.Context, w core.Warning) {
			slog.Info("client nears a limit", "limit", w.Limit, "level", w.Level) // w.Key may be a person's name
		},
	})

	r := gin.New()
	r.Use(gin.Recovery(), config.authenticate)
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
	v1 := r.Group("/v1", limits.Limit(perAddress), config.checkKey, limits.Limit(perKey))
	v1.GET("/items", done)
	v1.GET("/search", limits.Limit(perKeySearch), done)
	v1.GET("/export", limits.Limit(perKeyExport), done)

	r.Group("/app", limits.Limit(plan)).GET("/report", done)
	return r, nil
}

func done(c *gin.Context) { c.String(http.StatusOK, "done\n") }

// authenticate stands in for real authentication: the bearer token is the user's
// name. Limits by user run behind it, so they count verified users only.
func (config Config) authenticate(c *gin.Context) {
	name, found := strings.CutPrefix(c.GetHeader("Authorization"), "Bearer ")
	if plan, known := config.Plans[name]; found && known {
		c.Set("user", name)
		c.Set("plan", plan)
	}
}

// checkKey refuses unknown API keys. A limit by made-up keys would limit nobody, and
// leave an entry in the store for each key.
func (config Config) checkKey(c *gin.Context) {
	if sent := c.Request.Header["X-Api-Key"]; len(sent) != 1 || !config.Keys[sent[0]] {
		c.String(http.StatusUnauthorized, "no such key\n")
		c.Abort()
	}
}
