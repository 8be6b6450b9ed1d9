package clients

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// dialects in the order of the columns in docs/use/headers.md.
var dialects = []struct {
	name    string
	headers core.Headers
}{
	{"Draft11", core.Draft11},
	{"Draft07", core.Draft07},
	{"Draft03", core.Draft03},
	{"XRateLimit", core.XRateLimit},
	{"XRateLimitDelta", core.XRateLimitDelta},
}

// scene is what a client meets that comes to a site when nothing is left of its limit.
type scene struct {
	window       time.Duration // how long it has to wait
	noRetryAfter bool          // the dialect's own fields are all it can read
}

const (
	short = 2 * time.Second // a client that waits waits so long
	long  = time.Hour       // a client that comes back at once is denied however slow the machine is
)

// scenes by the first part of a path.
var scenes = map[string]scene{
	"retry-after": {window: short},
	"fields":      {window: short, noRetryAfter: true},
	"nothing":     {window: long, noRetryAfter: true},
	"hour":        {window: long},
}

// site is a server with a limit of its own for each path /scene/dialect/client. The first
// request to a path finds nothing left and is denied.
type site struct {
	*httptest.Server

	places map[string]*place
}

type place struct {
	handler  http.Handler
	first    sync.Once
	mu       sync.Mutex
	statuses []int
	protocol int // the major version of HTTP
}

func newSite(tb testing.TB) *site {
	tb.Helper()
	s := &site{places: map[string]*place{}}
	for name, scene := range scenes {
		for _, d := range dialects {
			for _, c := range append(slices.Clone(clients), client{name: loop}) {
				path := fmt.Sprintf("/%s/%s/%s", name, d.name, c.name)
				s.places[path] = &place{handler: scene.handler(tb, d.headers)}
			}
		}
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	tb.Cleanup(func() {
		s.CloseClientConnections() // Close would wait for clients that have been killed
		s.Close()
	})
	return s
}

// newLimiter makes a limiter for one request per window.
func newLimiter(tb testing.TB, dialect core.Headers, window time.Duration) *core.Limiter {
	tb.Helper()
	return must.Get(core.New(core.Config{
		Store:   core.NewMemory(),
		Limits:  []core.Limit{core.Per(1, window).By(keyfuncs.Everyone()).Named("client")},
		Headers: dialect,
		Logger:  slog.New(slog.DiscardHandler),
	}))(tb)
}

func (s scene) handler(tb testing.TB, dialect core.Headers) http.Handler {
	tb.Helper()
	h := nethttp.New(newLimiter(tb, dialect, s.window))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("{}"))
	}))
	if !s.noRetryAfter {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(withoutRetryAfter{w}, r) })
}

// withoutRetryAfter removes Retry-After from a response.
type withoutRetryAfter struct{ http.ResponseWriter }

func (w withoutRetryAfter) WriteHeader(status int) {
	w.Header().Del("Retry-After")
	w.ResponseWriter.WriteHeader(status)
}

// earlier is how long before a client's first request its limit was used up: timers of
// clients may be early by a millisecond, more than a request takes on this machine.
const earlier = 100 * time.Millisecond

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.places[r.URL.Path]
	if p == nil {
		http.NotFound(w, r)
		return
	}
	answered := false
	p.first.Do(func() {
		denial := httptest.NewRecorder()
		for p.handler.ServeHTTP(denial, r); denial.Code == http.StatusOK; p.handler.ServeHTTP(denial, r) {
			time.Sleep(earlier) // on a busy machine the window may be over by then
			denial = httptest.NewRecorder()
		}
		p.note(denial.Code, r)
		maps.Copy(w.Header(), denial.Header())
		w.WriteHeader(denial.Code)
		_, _ = denial.Body.WriteTo(w)
		answered = true
	})
	if answered {
		return
	}
	noted := &status{ResponseWriter: w, code: http.StatusOK}
	p.handler.ServeHTTP(noted, r)
	p.note(noted.code, r)
}

// note notes how a request was answered.
func (p *place) note(status int, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statuses, p.protocol = append(p.statuses, status), r.ProtoMajor
}

// status notes the status of a response.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// seen returns how the site answered the requests to a path.
func (s *site) seen(path string) []int {
	p := s.places[path]
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.statuses)
}
