package bench

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/bench/peers"
)

// framework makes a handler out of the handler that is measured everywhere, which answers
// 204, and a peer's middleware. The name of the one without middleware is "bare".
type framework struct {
	name string
	has  func(peers.Peer) bool
	bare func() http.Handler
	with func(peers.Peer, peers.Quota) (http.Handler, error)
}

var frameworks = []framework{
	{
		name: "net-http",
		has:  func(p peers.Peer) bool { return p.HTTP != nil },
		bare: func() http.Handler { return noContent },
		with: func(p peers.Peer, q peers.Quota) (http.Handler, error) {
			middleware, err := p.HTTP(q)
			if err != nil {
				return nil, err
			}
			return middleware(noContent), nil
		},
	},
	{
		name: "gin",
		has:  func(p peers.Peer) bool { return p.Gin != nil },
		bare: func() http.Handler { return engine() },
		with: func(p peers.Peer, q peers.Quota) (http.Handler, error) {
			middleware, err := p.Gin(q)
			if err != nil {
				return nil, err
			}
			return engine(middleware), nil
		},
	},
}

var noContent = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

func engine(middleware ...gin.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
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
		b.Run(f.name+"/bare", func(b *testing.B) { serve(b, f.bare()) })
		for _, p := range rotated(f.has) {
			b.Run(f.name+"/"+p.Name, func(b *testing.B) {
				h, err := f.with(p, peers.OneKey)
				if err != nil {
					b.Fatal(err)
				}
				serve(b, h)
			})
		}
	}
}

func serve(b *testing.B, h http.Handler) {
	w := &sink{header: http.Header{}}
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
	if w.status != 0 && w.status != http.StatusNoContent {
		b.Errorf("status %d", w.status)
	}
}

// sink is a response writer that costs nothing: one header map, and bodies are forgotten.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }
