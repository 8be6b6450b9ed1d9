// A program that uses weblimit on one framework, and nothing else.
package main

import (
	_ "github.com/gin-gonic/gin"

	_ "github.com/weblimit/weblimit/core/redisstore"
	_ "github.com/weblimit/weblimit/ginlimit"
)

func main() {}
