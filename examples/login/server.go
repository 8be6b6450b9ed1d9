package main

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// newServer lets a client fail five times in a quarter of an hour. A client
// that is denied three times within an hour is blocked: for ten minutes, then twenty,
// and so on up to a day. The caller drains the limiter at shutdown: see
// core.Limiter.Drain.
func newServer(store core.Store) (*gin.Engine, *core.Limiter) {
	attempts := core.Per(5, 15*time.Minute).SlidingLog().By(keyfuncs.ClientIP()).Named("login").
		RefundOn(core.Successes).
		Penalty(core.Block{After: 3, Within: time.Hour, For: 10 * time.Minute, Max: 24 * time.Hour})
	limiter := core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{attempts}}))

	r := gin.New()
	r.Use(gin.Recovery())
	r.POST("/login", ginlimit.New(limiter), logIn)
	admin := r.Group("/blocks", gin.BasicAuth(gin.Accounts{"admin": "admin"}))
	admin.GET("", func(c *gin.Context) { listBlocks(c, limiter) })
	admin.DELETE("/*key", func(c *gin.Context) { liftBlock(c, limiter) })
	return r, limiter
}

func logIn(c *gin.Context) {
	if c.PostForm("password") != "opensesame" {
		c.String(http.StatusUnauthorized, "wrong password\n")
		return
	}
	c.String(http.StatusOK, "welcome\n")
}

func listBlocks(c *gin.Context, limiter *core.Limiter) {
	blocks := []gin.H{}
	for b, err := range limiter.Blocks(c.Request.Context()) {
		if err != nil {
			c.String(http.StatusServiceUnavailable, "%v\n", err)
			return
		}
		blocks = append(blocks, gin.H{"limit": b.Limit, "key": b.Key, "until": b.Until, "times": b.Level})
	}
	c.JSON(http.StatusOK, blocks)
}

func liftBlock(c *gin.Context, limiter *core.Limiter) {
	if err := limiter.Unblock(c.Request.Context(), c.Param("key")[1:]); err != nil {
		c.String(http.StatusServiceUnavailable, "%v\n", err)
		return
	}
	c.Status(http.StatusNoContent)
}
