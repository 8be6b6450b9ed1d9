// A program that uses weblimit on one framework, and nothing else.
package main

import (
	_ "github.com/go-chi/chi/v5"

	_ "github.com/weblimit/weblimit/chilimit"
	_ "github.com/weblimit/weblimit/core/redisstore"
)

func main() {}
