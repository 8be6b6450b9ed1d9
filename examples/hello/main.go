// Command hello is the program at the top of the README: five requests at once from each
// client, then one every twelve seconds.
package main

import (
	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func main() {
	r := gin.Default()
	r.Use(ginlimit.Limit(core.NewMemory(), core.PerMinute(5).By(keyfuncs.ClientIP()).Named("client")))
	r.GET("/", func(c *gin.Context) { c.String(200, "hello\n") })
	_ = r.Run()
}
