package main

import (
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// newServer lets a client fail five times in a quarter of an hour, and an account ten times, from
// whatever addresses. A client that is denied three times within an hour is blocked: for ten
// minutes, then twenty, and so on up to a day. The caller drains the settings at shutdown: see
// ginlimit.Settings.Drain.
func newServer(store core.Store) (*gin.Engine, *ginlimit.Settings) {
	limits := ginlimit.With(core.Config{Store: store})
	attempts := core.Per(5, 15*time.Minute).SlidingLog().By(keyfuncs.ClientIP()).Named("login").
		RefundOn(core.Successes).
		Penalty(core.Block{After: 3, Within: time.Hour, For: 10 * time.Minute, Max: 24 * time.Hour})
	limiter := limits.Limiter(attempts) // for the admin
	perAccount := limits.Limiter(core.Per(10, 15*time.Minute).SlidingLog().By(keyfuncs.User("account")).Named("account").
		RefundOn(core.Successes))

	r := gin.New()
	r.Use(gin.Recovery())
	r.POST("/login", limits.Limit(attempts), func(c *gin.Context) { logIn(c, perAccount) })
	admin := r.Group("/blocks", gin.BasicAuth(gin.Accounts{"admin": "admin"}))
	admin.GET("", func(c *gin.Context) { listBlocks(c, limiter) })
	admin.DELETE("/*key", func(c *gin.Context) { liftBlock(c, limiter) })
	return r, limits
}

// logIn charges the account before it checks the password, so that parallel guesses do not all
// pass on the last attempt. An attempt that is not settled counts.
func logIn(c *gin.Context, perAccount *core.Limiter) {
	var form struct{ Name, Password string }
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, 4096)
	if c.BindJSON(&form) != nil {
		return
	}
	account := strings.ToLower(form.Name) // as the accounts are looked up: Alice is alice
	d := perAccount.AllowKey(c.Request.Context(), keyfuncs.Encode("account", account), 1)
	if !d.Allowed {
		d.SetHeaders(c.Writer.Header())
		ginlimit.Deny(c, d)
		return
	}
	if form.Password != "opensesame" {
		c.String(http.StatusUnauthorized, "wrong password\n")
		return
	}
	d.Settle(core.Outcome{Status: http.StatusOK}) // a success gives the attempt back
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
