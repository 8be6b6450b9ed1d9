// A program that takes the adapter of another major version.
package main

import (
	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/echo5limit"
)

func main() { echo.New().Use(echo5limit.Limit(nil)) }
