package proxies

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/keyfuncs"
)

// If an application upgrades connections to HTTP/2 without TLS, as Gin does with UseH2C,
// the proxy only copies bytes from then on, and the application sees the client's own
// headers. The proxies as documented let no upgrade through. HAProxy does without its
// http-request deny rule.
func TestUpgradesThatLeaveTheProxyBehind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		proxy *proxy
		edits []string
		past  bool // the client gets past its limit
	}{
		{"nginx", &nginx, nil, false},
		{"HAProxy", &haproxy, nil, false},
		{"HAProxy without http-request deny", &haproxy, []string{"http-request deny if { req.hdr(Upgrade)", "http-request set-header X-Denied 1 if { req.hdr(Upgrade)"}, true},
		{"Caddy", &caddy, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, "tcp")
			front := c.proxy.start(t, l.Addr(), c.edits...)
			r := newRoute(t, "/", keyfuncs.TrustedProxies(trusted))
			e := gin.New()
			e.UseH2C = true
			e.Any("/", ginlimit.New(r.Limiter), func(c *gin.Context) { _ = r.serve(c.Writer, c.Request) })
			server := &frameworks.Std{Handler: e.Handler()}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = server.Serve(l) // until shutdown
			}()
			pipeline(t, attacker, front.addr, pause, bytesOf(forgery{}.http1("/"), quota)) // uses up the quota
			upgraded(t, front)
			front.stop()
			server.Shutdown()
			<-done
			if ran := r.ran.Load(); ran > quota != c.past {
				t.Errorf("%d requests reached the handler, want more than %d: %v", ran, quota, c.past)
			}
		})
	}
}

// upgraded asks for an upgrade and, if it is granted, sends forgeries over it.
func upgraded(tb testing.TB, front *started) {
	tb.Helper()
	conn := dial(tb, attacker, front.addr, "http/1.1")
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(pause))
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade, HTTP2-Settings\r\n"+
		"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return // refused
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols {
		return
	}
	c := &http2Conn{Framer: http2.NewFramer(conn, r), last: 2} // the first stream is the upgraded request
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = c.WriteSettings()
	const forged = 40
	for i := range forged {
		c.send(forgery{fields: []field{{"X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i)}}}, "/")
	}
	c.receive(forged+1, map[int]int{})
}
