// A program that takes the adapter of another major version.
package main

import (
	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/echolimit"
)

func main() { echo.New().Use(echolimit.Limit(nil)) }
