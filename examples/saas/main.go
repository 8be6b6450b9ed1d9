// Command saas is a service with plans: tenants with API keys and monthly quotas, a page for whoever
// bills them, notices and top-ups. It runs on memory, or on PostgreSQL and Redis if DATABASE_URL and
// REDIS_ADDR are set.
//
// The application is in the folder server, a module of its own, so that the module of weblimit does not
// require a client of PostgreSQL. This program only builds and runs it.
package main

import "github.com/weblimit/weblimit/examples/internal/launch"

func main() { launch.Main("saas") }
