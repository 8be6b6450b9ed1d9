package limittest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// hangUps are scenarios of clients that abort their requests, in every way that a
// connection allows, to get their charges back. Nothing that a client does may lower
// its charges.
var hangUps = func() []scenario {
	all := []scenario{
		{"a server that gives up by itself has failed, and its clients are refunded", serverTimeOuts},
		{"what was told by Spend stays charged when the client hangs up", chargedThenGone},
		{"streams that are opened and reset count", resetStreams},
		{"a login that is broken off counts as an attempt", func(e *env) { e.breakOff(brokenLogin, core.Successes) }},
	}
	for _, how := range breaks {
		all = append(all,
			scenario{how.name + " is no error of the server's", func(e *env) { e.breakOff(how, core.ServerErrors) }},
			scenario{how.name + " is no failure", func(e *env) { e.breakOff(how, core.Failures) }},
		)
	}
	return all
}()

// breakOff is a way to abort a request.
type breakOff struct {
	name    string
	request string              // sent as it is, with %s for the host
	act     func(*broken)       // the client, after sending the request
	handle  func(*broken, Call) // the application
}

// broken is a request that its client aborts.
type broken struct {
	*env
	net.Conn
	backend string
	entered chan struct{} // the handler runs
	gaveUp  chan struct{} // the handler has stopped waiting for its client
	left    chan struct{} // the client has left
	leave   func()        // closes left
}

func (e *env) broken(host, backend string) *broken {
	b := &broken{env: e, Conn: e.dial(host), backend: backend, entered: make(chan struct{}), gaveUp: make(chan struct{}), left: make(chan struct{})}
	b.leave = sync.OnceFunc(func() { close(b.left) })
	return b
}

const (
	getIt  = "GET / HTTP/1.1\r\n" + outcomeHeader + ": %d\r\nHost: test\r\n\r\n"
	postIt = "POST / HTTP/1.1\r\n" + outcomeHeader + ": %d\r\nHost: test\r\n"
	short  = postIt + "Content-Length: 10\r\n\r\nabc"
)

// large is more than fits into the buffers between a handler and its client.
const large = 16 << 20

var breaks = []breakOff{
	{"a reset before the last byte of a proxied answer", getIt, func(b *broken) {
		b.readUntil(lastLine)
		b.reset()
	}, func(b *broken, c Call) { c.Proxy(b.backend + "/answer") }},
	{"a reset before a proxied answer", getIt, resetWhileItWorks, func(b *broken, c Call) { c.Proxy(b.backend + "/never") }},
	{"a reset while a proxied answer trickles out", getIt, func(b *broken) {
		b.readUntil("HTTP/1.1 200")
		time.Sleep(30 * time.Millisecond) // the buffers are full
		b.reset()
	}, func(b *broken, c Call) { c.Proxy(b.backend + "/large") }},
	{"a reset that the handler answers with 500", getIt, resetWhileItWorks, whenGone(func(c Call) { c.Reply(500, "the query was canceled") })},
	{"a reset that the handler answers with its framework's error", getIt, resetWhileItWorks, whenGone(func(c Call) { c.Fail(503, true) })},
	{"a reset that the handler answers with any error", getIt, resetWhileItWorks, whenGone(func(c Call) { c.Fail(500, false) })},
	{"a reset that the handler notes as 499", getIt, resetWhileItWorks, whenGone(func(c Call) { c.Reply(499, "") })},
	{"a reset that the handler panics for", getIt, resetWhileItWorks, whenGone(func(Call) { panic("on purpose, in a test") })},
	{"closing the sending half", getIt, func(b *broken) {
		<-b.entered
		b.closeHalf()
	}, whenGone(func(c Call) { c.Reply(500, "the query was canceled") })},
	{"a body that ends too early", short, (*broken).closeHalf, readBody},
	{"a body that a reset cuts short", short, (*broken).reset, readBody},
	{"a body of bad chunks", postIt + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nno length\r\n", (*broken).readOne, readBody},
	{"a proxied body that ends too early", short, (*broken).closeHalf, func(b *broken, c Call) { c.Proxy(b.backend + "/read") }},
	{"a body that never comes, until the server gives up,", short, func(b *broken) {
		if !b.differs.Blind { // else no handler runs before all of the body has come
			<-b.gaveUp
			time.Sleep(10 * time.Millisecond) // time to settle: nothing tells a client that it has been done
		}
		b.reset()
	}, func(b *broken, c Call) {
		defer close(b.gaveUp)
		start := time.Now()
		if !timeOut(c, func(r *http.Request, giveUp func()) {
			// The client has by then kept the handler waiting for most of the request, and longer than networks do.
			time.AfterFunc(max(200*time.Millisecond, 2*time.Since(start)), giveUp)
			_, _ = io.Copy(io.Discard, r.Body)
		}) {
			readBody(b, c)
		}
	}},
}

// brokenLogin is a password guess whose client leaves before the answer. The handler then
// returns without writing one, and its status is 200.
var brokenLogin = breakOff{"", getIt, resetWhileItWorks, func(b *broken, c Call) {
	if b.gone(c); b.differs.Blind {
		c.Reply(401, "wrong password")
	}
}}

func resetWhileItWorks(b *broken) {
	<-b.entered
	b.reset()
}

// whenGone waits until the client has left, then acts as a handler that notices it.
func whenGone(then func(Call)) func(*broken, Call) {
	return func(b *broken, c Call) {
		if b.gone(c); b.differs.Blind {
			c.Reply(200, "to nobody")
			return
		}
		then(c)
	}
}

// readBody answers every error of reading the body in the same way, as many
// applications do.
func readBody(_ *broken, c Call) {
	if _, err := c.Body(); err != nil {
		c.Reply(500, err.Error())
		return
	}
	c.Reply(200, "read")
}

// timeOut runs handle in an http.TimeoutHandler, whose time is up when handle calls giveUp. It
// reports false if the framework is not built on net/http.
func timeOut(c Call, handle func(r *http.Request, giveUp func())) bool {
	std, ok := c.(HTTPCall)
	if ok {
		up := make(chan struct{})
		inner := func(_ http.ResponseWriter, r *http.Request) { handle(r, func() { close(up) }) }
		http.TimeoutHandler(http.HandlerFunc(inner), time.Hour, "").ServeHTTP(std.Writer, std.Request.WithContext(deadline{std.Request.Context(), up}))
	}
	return ok
}

// deadline is a context whose deadline passes when up is closed.
type deadline struct {
	context.Context
	up <-chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.up }

func (d deadline) Err() error {
	select {
	case <-d.up:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// reset closes the connection so that the server's next write fails.
func (b *broken) reset() {
	_ = b.Conn.(*net.TCPConn).SetLinger(0)
	_ = b.Close()
}

// closeHalf closes the sending side and reads the answer.
func (b *broken) closeHalf() {
	defer b.Close()
	_ = b.Conn.(*net.TCPConn).CloseWrite()
	b.leave()
	_, _ = io.Copy(io.Discard, b.Conn)
}

// readOne reads the first byte of the answer.
func (b *broken) readOne() {
	defer b.Close()
	_, _ = b.Read(make([]byte, 1))
}

// readUntil reads until it has read text, or to the end.
func (b *broken) readUntil(text string) {
	var got strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(got.String(), text) {
		n, err := b.Read(buffer)
		got.Write(buffer[:n])
		if err != nil {
			return
		}
	}
}

// gone waits until the client has left and the handler has been told, if it ever is.
func (b *broken) gone(c Call) {
	if b.differs.Blind {
		<-b.left
		return
	}
	select {
	case <-c.Context().Done():
	case <-time.After(patience):
		b.Error("the handler was not told that its client has left")
	}
}

const lastLine = "the last line but one\n"

// backend is the server behind proxying handlers. Its answers lack the last byte, are too
// large for all buffers, never come, or wait for the body. It does not wait for a client
// to leave if the framework never notices that.
func (e *env) backend() string {
	e.Helper()
	wait := func(r *http.Request) {
		if !e.differs.Blind {
			<-r.Context().Done()
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /answer/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(lastLine)+1))
		_, _ = io.WriteString(w, lastLine)
		w.(http.Flusher).Flush()
		wait(r)
		_, _ = io.WriteString(w, "\n")
	})
	mux.HandleFunc("GET /large/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(large))
		_, _ = w.Write(make([]byte, large))
	})
	mux.HandleFunc("GET /never/", func(_ http.ResponseWriter, r *http.Request) { wait(r) })
	mux.HandleFunc("POST /read/", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	server := httptest.NewServer(mux)
	e.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// breakOff aborts many more requests than the client's quota and counts those that
// reached the handler.
func (e *env) breakOff(how breakOff, refund func(core.Outcome) bool) {
	const quota = 3
	limiter := e.limiter(core.PerHour(quota).By(keyfuncs.Everyone()).Named("all").RefundOn(refund))
	var handled, running atomic.Int64
	var requests sync.Map
	handle := func(c Call) {
		running.Add(1)
		defer running.Add(-1)
		handled.Add(1)
		known, _ := requests.Load(c.Header(outcomeHeader))
		b := known.(*broken)
		close(b.entered)
		how.handle(b, c)
	}
	s := e.serve(App{Layers: []Layer{{Limiter: limiter}}, Routes: []Route{
		{Method: "GET", Path: "/", Handle: handle}, {Method: "POST", Path: "/", Handle: handle},
	}})
	host, backend := strings.TrimPrefix(s.server.Listen(e), "http://"), e.backend()
	used := func() int64 { return quota - e.left(limiter) }
	for n := range 3 * quota {
		b := e.broken(host, backend)
		requests.Store(strconv.Itoa(n), b)
		act := how.act
		if used() >= quota {
			act = (*broken).closeHalf // and read a denial
		}
		must.Do(fmt.Fprintf(b.Conn, how.request, n))(e)
		act(b)
		b.leave()
		e.eventually("the handler ends", func() bool { return running.Load() == 0 }, func() any { return running.Load() })
		time.Sleep(2 * time.Millisecond) // time to settle, if anything would be
	}
	// A server that is slow may still be charging requests of clients that did not wait for their handlers.
	e.eventually("as many are charged as were handled", func() bool {
		charged := handled.Load()
		if e.differs.RunsUnread && charged == 0 { // the framework has read none
			charged = quota
		}
		return used() == charged
	}, func() any { return fmt.Sprintf("%d were handled, and %d are charged", handled.Load(), used()) })
	if got := handled.Load(); got > quota {
		e.Errorf("%d requests were handled that were broken off, of a quota of %d", got, quota)
	}
}

func (e *env) dial(host string) net.Conn {
	e.Helper()
	conn := must.Get(net.Dial("tcp", host))(e)
	e.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// serverTimeOuts is the opposite case: a time-out of the server counts as a failure.
func serverTimeOuts(e *env) {
	s := e.serve(App{
		Layers: e.layer(core.PerHour(2).By(keyfuncs.Everyone()).Named("all").RefundOn(core.ServerErrors)),
		Routes: []Route{{Method: "POST", Path: "/", Handle: func(c Call) {
			start := time.Now()
			if !timeOut(c, func(r *http.Request, giveUp func()) {
				_, _ = io.Copy(io.Discard, r.Body)
				time.AfterFunc(max(10*time.Millisecond, 2*time.Since(start)), giveUp) // most of the time is the handler's
				<-r.Context().Done()
			}) {
				c.Reply(503, "too late")
			}
		}}},
	})
	base, client := s.server.Listen(e), e.client()
	for range 6 {
		e.eventually("a time-out of the server's is refunded", func() bool {
			r := must.Get(client.Post(base+"/", "text/plain", strings.NewReader("a body")))(e)
			defer r.Body.Close()
			return r.StatusCode == http.StatusServiceUnavailable
		}, func() any { return "denied" })
	}
}

// chargedThenGone is the chat of docs/use/beyond-counting.md: the client pays for the tokens that the model
// has written, even if it has left.
func chargedThenGone(e *env) {
	const estimate, spent, quota = 100, 300, 1000
	// A bucket would have more left by the time that it is looked at.
	limiter := e.limiter(core.PerDay(quota).FixedWindow().By(keyfuncs.Everyone()).Named("tokens").Estimate(estimate).RefundOn(core.ServerErrors))
	var current atomic.Pointer[broken]
	s := e.serve(App{Layers: []Layer{{Limiter: limiter}}, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
		check.OK(e, c.Spend(spent))
		b := current.Load()
		close(b.entered)
		b.gone(c)
		c.Reply(502, "to nobody")
	}}}})
	host := strings.TrimPrefix(s.server.Listen(e), "http://")
	for n := int64(1); n <= 3; n++ {
		b := e.broken(host, "")
		current.Store(b)
		_, _ = fmt.Fprintf(b.Conn, getIt, n)
		resetWhileItWorks(b)
		b.leave()
		var left int64
		e.eventually("what was spent is charged", func() bool {
			left = e.left(limiter)
			return left == quota-n*spent
		}, func() any { return fmt.Sprintf("%d left after %d answers of %d", left, n, spent) })
	}
}

// resetStreams opens many HTTP/2 streams under a limit of 100 and resets each. Without
// HTTP/2 it uses as many connections.
func resetStreams(e *env) {
	const quota, together = 100, 50
	streams := long.Rounds(500, 2000)
	limiter := e.limiter(core.PerHour(quota).By(keyfuncs.Everyone()).Named("all").RefundOn(core.ServerErrors))
	var handled, running atomic.Int64
	s := e.serve(App{Layers: []Layer{{Limiter: limiter}}, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
		running.Add(1)
		defer running.Add(-1)
		handled.Add(1)
		if e.differs.Blind {
			c.Reply(200, "to nobody")
			return
		}
		<-c.Context().Done()
		c.Reply(500, "the query was canceled")
	}}}})
	host := strings.TrimPrefix(s.server.Listen(e), "http://")
	for range streams / together {
		if e.differs.OnlyHTTP1 {
			for n := range together {
				b := e.broken(host, "")
				_, _ = fmt.Fprintf(b.Conn, getIt, n)
				b.reset()
			}
		} else {
			e.openAndReset(host, together)
		}
		e.eventually("the handlers end", func() bool { return running.Load() == 0 }, func() any { return running.Load() })
		must.OK(e, limiter.Drain(e.Context()))
	}
	if !e.differs.OnlyHTTP1 { // else a request can be reset before the server has read it
		e.eventually("the whole quota is handled", func() bool { return handled.Load() >= quota }, func() any { return handled.Load() })
	}
	if got := handled.Load(); got > quota {
		e.Errorf("%d streams were handled, of a quota of %d", got, quota)
	}
}

// openAndReset opens streams on one connection, resets them all, and waits until the
// server has read the resets.
func (e *env) openAndReset(host string, streams int) {
	e.Helper()
	h := h2conn{e.dial(host)}
	defer h.Close()
	h.begin()
	for i := range streams {
		h.get(uint32(2*i+1), host)
	}
	for i := range streams {
		h.cancel(uint32(2*i + 1))
	}
	check.OK(e, h.ping())
}
