package clients

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// aWednesday is the time of recorded responses.
var aWednesday = time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)

// record returns the bytes that a server sends for so many requests at the same instant, one
// response each.
func record(t *testing.T, dialect core.Headers, requests int, limits ...core.Limit) (responses [][]byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(aWednesday))
		limiter := must.Get(core.New(core.Config{
			Store: core.NewMemory(), Limits: limits, Headers: dialect, Logger: slog.New(slog.DiscardHandler),
		}))(t)
		l := &pipes{conns: make(chan net.Conn)}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: nethttp.New(limiter)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "hello\n")
		}))}
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		for range requests {
			client, conn := net.Pipe()
			l.conns <- conn
			go func() {
				_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
			}()
			raw := must.Get(io.ReadAll(client))(t)
			responses = append(responses, raw)
		}
	})
	return responses
}

// pipes is a listener for connections within the process.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.conns) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// replay starts a server that sends recorded responses byte by byte, each under its
// replayPath.
func replay(tb testing.TB, responses [][]byte) *httptest.Server {
	tb.Helper()
	mux := http.NewServeMux()
	for i, raw := range responses {
		mux.HandleFunc(replayPath(i), func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				tb.Error(err)
				return
			}
			_, _ = conn.Write(raw)
			_ = conn.Close()
		})
	}
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	return server
}

// replayPath is the path of a recorded response.
func replayPath(i int) string { return "/" + strconv.Itoa(i) }

// perClient is the limit of docs/use/headers.md: five at once, then one every 12 seconds.
func perClient() core.Limit { return core.PerMinute(5).By(keyfuncs.Everyone()).Named("client") }
