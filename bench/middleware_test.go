package bench

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"
	"github.com/valyala/fasthttp"

	"github.com/weblimit/weblimit/bench/peers"
)

// framework makes an app out of the handler that is measured everywhere, which answers 204,
// and a peer's middleware. The name of the one without middleware is "bare".
type framework struct {
	name string
	has  func(peers.Peer) bool
	bare func() app
	with func(peers.Peer, peers.Quota) (app, error)
}

var frameworks = []framework{
	frameworkOf("net-http", func(p peers.Peer) func(peers.Quota) (func(http.Handler) http.Handler, error) { return p.HTTP },
		func(middleware ...func(http.Handler) http.Handler) app {
			h := http.Handler(noContent)
			for _, m := range middleware {
				h = m(h)
			}
			return httpApp{h}
		}),
	frameworkOf("gin", func(p peers.Peer) func(peers.Quota) (gin.HandlerFunc, error) { return p.Gin },
		func(middleware ...gin.HandlerFunc) app { return httpApp{engine(middleware...)} }),
	frameworkOf("echo", func(p peers.Peer) func(peers.Quota) (echo.MiddlewareFunc, error) { return p.Echo },
		func(middleware ...echo.MiddlewareFunc) app {
			e := echo.New()
			e.Use(middleware...)
			e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
			return httpApp{e}
		}),
	frameworkOf("fiber", func(p peers.Peer) func(peers.Quota) (fiber.Handler, error) { return p.Fiber },
		func(middleware ...fiber.Handler) app {
			f := fiber.New()
			for _, m := range middleware {
				f.Use(m)
			}
			f.Get("/", func(c *fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
			return fiberApp{f.Handler()}
		}),
}

// frameworkOf is a framework whose middleware is an M.
func frameworkOf[M any](name string, of func(peers.Peer) func(peers.Quota) (M, error), use func(...M) app) framework {
	return framework{
		name: name,
		has:  func(p peers.Peer) bool { return of(p) != nil },
		bare: func() app { return use() },
		with: func(p peers.Peer, q peers.Quota) (app, error) {
			m, err := of(p)(q)
			if err != nil {
				return nil, err
			}
			return use(m), nil
		},
	}
}

// app answers "GET /".
type app interface {
	serve(b *testing.B)
	get() (status int, header http.Header)
}

var noContent = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

func init() { gin.SetMode(gin.ReleaseMode) } // for the process: tests run beside each other

func engine(middleware ...gin.HandlerFunc) http.Handler {
	r := gin.New()
	r.Use(middleware...)
	r.GET("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	return r
}

// BenchmarkMiddleware serves one request again and again, without a network, by middleware
// whose limit is in memory, is by client address and allows all. Headers are as each sets
// them by default.
func BenchmarkMiddleware(b *testing.B) {
	for _, f := range frameworks {
		b.Run(f.name+"/bare", func(b *testing.B) { f.bare().serve(b) })
		for _, p := range rotated(f.has) {
			b.Run(f.name+"/"+p.Name, func(b *testing.B) {
				h, err := f.with(p, peers.OneKey)
				if err != nil {
					b.Fatal(err)
				}
				h.serve(b)
			})
		}
	}
}

type httpApp struct{ http.Handler }

func (a httpApp) serve(b *testing.B) {
	w := &sink{header: http.Header{}}
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		a.ServeHTTP(w, r)
	}
	if w.status != 0 && w.status != http.StatusNoContent {
		b.Errorf("status %d", w.status)
	}
}

func (a httpApp) get() (status int, header http.Header) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	return w.Code, w.Header()
}

// fiberApp is measured without fasthttp's reading and writing, as the others are without
// those of net/http.
type fiberApp struct{ handle fasthttp.RequestHandler }

func newFiberRequest() *fasthttp.RequestCtx {
	r := fasthttp.AcquireRequest()
	r.Header.SetMethod(http.MethodGet) // else fasthttp makes it anew each time it is asked
	r.SetRequestURI("/")
	c := new(fasthttp.RequestCtx)
	c.Init(r, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:1234")), nil)
	return c
}

func (a fiberApp) serve(b *testing.B) {
	c := newFiberRequest()
	b.ReportAllocs()
	for b.Loop() {
		c.Response.Reset()
		c.ResetUserValues()
		a.handle(c)
	}
	if status := c.Response.StatusCode(); status != http.StatusNoContent {
		b.Errorf("status %d", status)
	}
}

func (a fiberApp) get() (status int, header http.Header) {
	c, header := newFiberRequest(), http.Header{}
	a.handle(c)
	for name, value := range c.Response.Header.All() {
		header.Add(string(name), string(value))
	}
	return c.Response.StatusCode(), header
}

// sink is a response writer that costs nothing: one header map, and bodies are forgotten.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }
