// A program that uses weblimit on one framework, and nothing else.
package main

import (
	_ "github.com/weblimit/weblimit/core/redisstore"
	_ "github.com/weblimit/weblimit/nethttp"
)

func main() {}
