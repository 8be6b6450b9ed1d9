// Package newest is the other end of the range of releases that the stores and adapters work with: this module asks
// for the newest of each framework and client, where those of users ask for the oldest. Its go.mod says which they
// were when somebody last looked; make test runs the tests of the packages below with these, and make newest with
// those of today. It is a module of its own, so that it moves no user's versions.
package newest

import (
	// Frameworks and clients.
	_ "github.com/gin-gonic/gin"
	_ "github.com/go-chi/chi/v5"
	_ "github.com/gofiber/fiber/v2"
	_ "github.com/gofiber/fiber/v3"
	_ "github.com/jackc/pgx/v5"
	_ "github.com/labstack/echo/v4"
	_ "github.com/labstack/echo/v5"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/redis/go-redis/v9"
	_ "github.com/valyala/fasthttp"
	_ "go.opentelemetry.io/otel/sdk/metric"
	_ "google.golang.org/grpc"

	// The packages whose tests run with them. One that is missing here is missing in make test: see
	// TestThePlanHasEveryPackageWithTests in internal/test/run.
	_ "github.com/weblimit/weblimit/chilimit"
	_ "github.com/weblimit/weblimit/core/pgstore"
	_ "github.com/weblimit/weblimit/core/redisstore"
	_ "github.com/weblimit/weblimit/echo5limit"
	_ "github.com/weblimit/weblimit/echolimit"
	_ "github.com/weblimit/weblimit/fiber3limit"
	_ "github.com/weblimit/weblimit/fiberlimit"
	_ "github.com/weblimit/weblimit/ginlimit"
	_ "github.com/weblimit/weblimit/grpclimit"
	_ "github.com/weblimit/weblimit/metrics/otel"
	_ "github.com/weblimit/weblimit/metrics/prometheus"
	_ "github.com/weblimit/weblimit/nethttp"
)
