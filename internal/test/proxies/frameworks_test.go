package proxies

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/nethttp"
)

var frameworks = []Framework{
	{"net http", func(routes []*Route) Engine {
		mux := http.NewServeMux()
		for _, r := range routes {
			mux.Handle(r.Path, nethttp.New(r.Limiter)(r))
		}
		return Std(mux)
	}},
	{"chi", func(routes []*Route) Engine {
		mux := chi.NewRouter()
		for _, r := range routes {
			mux.With(chilimit.New(r.Limiter)).Handle(r.Path, r)
		}
		return Std(mux)
	}},
	{"Gin", func(routes []*Route) Engine {
		e := gin.New()
		for _, r := range routes {
			e.Any(r.Path, ginlimit.New(r.Limiter), gin.WrapH(r))
		}
		return Std(e)
	}},
	{"Echo", func(routes []*Route) Engine {
		e := echo.New()
		for _, r := range routes {
			e.Any(r.Path, echo.WrapHandler(r), echolimit.New(r.Limiter))
		}
		return Std(e)
	}},
	{"Fiber", func(routes []*Route) Engine {
		app := fiber.New(fiber.Config{DisableStartupMessage: true})
		for _, r := range routes {
			app.All(r.Path, fiberlimit.New(r.Limiter), func(c *fiber.Ctx) error {
				r.Ran()
				return c.SendString("ok")
			})
		}
		return fast{app}
	}},
}

func init() { gin.SetMode(gin.ReleaseMode) }

type fast struct{ *fiber.App }

func (f fast) Serve(l net.Listener) error { return f.Listener(l) }
func (f fast) Shutdown()                  { _ = f.ShutdownWithTimeout(time.Second) }

func TestForgedRequestsThroughProxies(t *testing.T) {
	t.Parallel()
	ForgedRequests(t, frameworks)
}

func TestClientsThatShareAProxysConnections(t *testing.T) {
	t.Parallel()
	SharedConnections(t, frameworks)
}

func TestForgedRequestsBehindTheProxyProtocol(t *testing.T) {
	t.Parallel()
	ProxyProtocol(t, frameworks)
}

func TestSmuggledRequestsThroughProxies(t *testing.T) {
	t.Parallel()
	SmuggledRequests(t, frameworks)
}

func TestProxiesThatNameNoClient(t *testing.T) {
	t.Parallel()
	NoClient(t, frameworks)
}
