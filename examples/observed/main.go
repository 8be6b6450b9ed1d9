// Command observed shows what limits do to good and bad clients: an application under load with the
// operators' page and metrics for Prometheus, on memory or, if REDIS_ADDR is set, as two instances on
// Redis.
//
// The application is in the folder server, a module of its own, so that the module of weblimit does not
// require Prometheus' client. This program only builds and runs it.
package main

import "github.com/weblimit/weblimit/examples/internal/launch"

func main() { launch.Main("observed") }
