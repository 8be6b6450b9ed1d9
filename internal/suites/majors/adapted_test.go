package majors

import (
	"bufio"
	"io"
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// Fiber 3 takes handlers of net/http, and gives them the value of a trailer in place of that of a
// header. A limiter of nethttp there counts for whom the client names; one of fiber3limit does not.
func TestAHandlerOfNetHTTPInFiber(t *testing.T) {
	t.Parallel()
	tenant := core.PerHour(1).By(keyfuncs.Header("X-Tenant"))
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	app := fiber.New()
	app.Post("/nethttp", nethttp.Limit(core.NewMemory(), tenant)(ok))
	app.Post("/fiber3limit", fiber3limit.Limit(core.NewMemory(), tenant), ok)

	l := fasthttputil.NewInmemoryListener()
	server, done := fasthttp.Server{Handler: app.Handler()}, make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until it closes
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	status := func(path, trailer string) int {
		conn := must.Get(l.Dial())(t)
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: a\r\nX-Tenant: of the proxy\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Tenant: "+trailer+"\r\n\r\n")
		res := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		_ = res.Body.Close()
		return res.StatusCode
	}
	for path, want := range map[string][2]int{"/nethttp": {204, 204}, "/fiber3limit": {204, 429}} {
		check.Equal(t, path, [2]int{status(path, "a"), status(path, "b")}, want)
	}
}
