package majors

import (
	"net"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/echo5limit"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/internal/test/proxies"
)

var proxied = []proxies.Framework{
	{Name: "Echo", Build: func(routes []*proxies.Route) proxies.Engine {
		e := echo.New()
		for _, r := range routes {
			e.Any(r.Path, echo.WrapHandler(r), echo5limit.New(r.Limiter))
		}
		return proxies.Std(e)
	}},
	{Name: "Fiber", Build: func(routes []*proxies.Route) proxies.Engine {
		app := fiber.New()
		for _, r := range routes {
			app.All(r.Path, fiber3limit.New(r.Limiter), func(c fiber.Ctx) error {
				r.Ran()
				return c.SendString("ok")
			})
		}
		return fast{app}
	}},
}

type fast struct{ *fiber.App }

func (f fast) Serve(l net.Listener) error {
	return f.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
}

func (f fast) Shutdown() { _ = f.ShutdownWithTimeout(time.Second) }

func TestForgedRequestsThroughProxies(t *testing.T) {
	t.Parallel()
	proxies.ForgedRequests(t, proxied)
}

func TestClientsThatShareAProxysConnections(t *testing.T) {
	t.Parallel()
	proxies.SharedConnections(t, proxied)
}

func TestForgedRequestsBehindTheProxyProtocol(t *testing.T) {
	t.Parallel()
	proxies.ProxyProtocol(t, proxied)
}

func TestSmuggledRequestsThroughProxies(t *testing.T) {
	t.Parallel()
	proxies.SmuggledRequests(t, proxied)
}

func TestProxiesThatNameNoClient(t *testing.T) {
	t.Parallel()
	proxies.NoClient(t, proxied)
}
