package adapter_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/keyfuncs"
)

// request is a keyfuncs.Request. It is a single pointer, so that making an interface of it
// does not allocate.
type request struct{ r *http.Request }

func (r request) Context() context.Context { return r.r.Context() }
func (r request) Method() string           { return r.r.Method }
func (r request) Path() string             { return r.r.URL.EscapedPath() }
func (r request) Route() (string, bool)    { return r.r.Pattern, r.r.Pattern != "" }
func (r request) Value(key any) any        { return r.r.Context().Value(key) }

func (r request) Header(name string, i int) (string, bool) { return at(r.r.Header[name], i) }

func (r request) Query(name string, i int) (string, bool) { return at(r.r.URL.Query()[name], i) }

func (r request) Cookie(name string, i int) (string, bool) {
	var values []string
	for _, cookie := range r.r.CookiesNamed(name) {
		values = append(values, cookie.Value)
	}
	return at(values, i)
}

func (r request) Peer() netip.Addr {
	host, _, _ := net.SplitHostPort(r.r.RemoteAddr)
	addr, _ := netip.ParseAddr(host)
	return addr
}

func at(values []string, i int) (string, bool) {
	if i < 0 || i >= len(values) {
		return "", false
	}
	return values[i], true
}

// limit is the middleware of an adapter for net/http.
func limit(limiter *core.Limiter) func(http.Handler) http.Handler {
	asked := adapter.New(limiter, "example")
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := &adapter.Context{Context: r.Context()}
			asked.Decide(request{r}, ctx, nil)
			d := &ctx.Decision
			d.SetHeaders(adapter.HeaderMap(w.Header()))
			if !d.Allowed {
				body, _ := d.AppendProblem(nil, r.Header.Get("Accept-Language"))
				w.Header().Set("Content-Type", core.ProblemType)
				w.WriteHeader(d.Status())
				_, _ = w.Write(body)
				return
			}
			if asked.Reserved(d) { // a real adapter finds out the status and much more, where ReadsOutcome says so
				defer d.Settle(core.Outcome{Status: http.StatusOK})
			}
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

func Example() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{core.PerMinute(1).By(keyfuncs.ClientIP())})
	handler := limit(limiter)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, _ := core.FromContext(r.Context())
		fmt.Println("the handler knows:", d.Reason)
	}))
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// the handler knows: within limit
	// 200 "default";r=0;t=60
	// 429 "default";r=0;t=60
}
