package migrate

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"
	"github.com/valyala/fasthttp"
)

// A server answers a request for a target such as "GET /", without a network. The header
// X-Forwarded-For is sent unless it is empty.
type server func(t *testing.T, target, from, forwarded string) response

// A response is what the client sees.
type response struct {
	status int
	header http.Header
	body   string
}

func served(h http.Handler) server {
	return func(t *testing.T, target, from, forwarded string) response {
		t.Helper()
		method, path, _ := strings.Cut(target, " ")
		r := httptest.NewRequest(method, path, http.NoBody)
		r.RemoteAddr = from
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return response{w.Code, w.Header(), w.Body.String()}
	}
}

var page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

func init() { gin.SetMode(gin.TestMode) } // here, since tests run beside each other

func onGin(setUp func(*gin.Engine)) server {
	r := gin.New()
	setUp(r)
	r.GET("/", gin.WrapH(page))
	return served(r)
}

func onChi(setUp func(chi.Router)) server {
	r := chi.NewRouter()
	setUp(r)
	r.Get("/", page)
	return served(r)
}

func onEcho(setUp func(*echo.Echo)) server {
	e := echo.New()
	setUp(e)
	e.GET("/", echo.WrapHandler(page))
	return served(e)
}

func onFiber(setUp func(*fiber.App)) server {
	app := fiber.New()
	setUp(app)
	app.Get("/", func(c *fiber.Ctx) error { return c.SendString("hello") })
	return onFastHTTP(app.Handler())
}

func onFastHTTP(handle fasthttp.RequestHandler) server {
	return func(t *testing.T, target, from, forwarded string) response {
		t.Helper()
		peer, err := net.ResolveTCPAddr("tcp", from)
		if err != nil {
			t.Fatal(err)
		}
		var request fasthttp.Request
		method, path, _ := strings.Cut(target, " ")
		request.Header.SetMethod(method)
		request.SetRequestURI(path)
		if forwarded != "" {
			request.Header.Set("X-Forwarded-For", forwarded)
		}
		var c fasthttp.RequestCtx
		c.Init(&request, peer, nil)
		handle(&c)
		header := http.Header{}
		for name, value := range c.Response.Header.All() {
			header.Add(string(name), string(value))
		}
		r := response{c.Response.StatusCode(), header, string(c.Response.Body())}
		c.ResetUserValues() // as fasthttp does once the response is sent
		return r
	}
}

// must is for limiters whose constructors can fail, and for files that are there.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
