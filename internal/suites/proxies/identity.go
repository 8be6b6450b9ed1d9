package proxies

import (
	"bytes"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/keyfuncs"
)

// strategies find the client behind one proxy. The keys are paths.
func (p *proxy) strategies(network string) map[string]keyfuncs.Strategy {
	if network == "unix" {
		return map[string]keyfuncs.Strategy{"/hops": keyfuncs.HopCount(1)}
	}
	all := map[string]keyfuncs.Strategy{
		"/trusted":    keyfuncs.TrustedProxies(trusted),
		"/real":       keyfuncs.XRealIP(trusted),
		"/hops":       keyfuncs.HopCount(1),
		"/cloudflare": keyfuncs.Cloudflare(trusted),
	}
	if p.forwarded {
		all["/forwarded"] = keyfuncs.Forwarded(trusted)
	}
	return all
}

// routes makes a route for each of the strategies.
func (p *proxy) routes(tb testing.TB, network string) (routes []*Route) {
	tb.Helper()
	for path, strategy := range p.strategies(network) {
		routes = append(routes, newRoute(tb, path, strategy))
	}
	return routes
}

// ForgedRequests tests that a client that makes up hundreds of requests, over HTTP/1.1 and HTTP/2, gets no more
// than its quota from each strategy. Another client behind the same proxy gets its own.
func ForgedRequests(t *testing.T, all []frameworks.Framework) {
	t.Helper()
	everyPair(t, all, func(t *testing.T, p *proxy, f frameworks.Framework) {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(network, func(t *testing.T) {
				t.Parallel()
				routes := p.routes(t, network)
				front, stop := behind(t, f, p, network, routes)
				for _, r := range routes {
					forge(t, front, r)
				}
				stop()
				for _, r := range routes {
					r.settle(t)
				}
			})
		}
	})
}

// pause is how long to wait for an answer.
const pause = time.Minute

// A corpus holds forgeries of each shape.
type corpus struct {
	http1 [][]byte
	http2 []forgery // those with trailers last
}

// corpora holds the corpus of each path and size.
var corpora sync.Map

// forged returns so many forgeries for a path. The malformed ones are few, one of each shape: most of them cost a
// connection.
func forged(path string, all int) *corpus {
	type size struct {
		path string
		all  int
	}
	if made, ok := corpora.Load(size{path, all}); ok {
		return made.(*corpus)
	}
	c := new(corpus)
	first := all * 6 / 10
	every := first / len(malformed(0))
	for i := range first {
		shapes, n := forgeries(i, path), i
		if i%every == every-1 {
			shapes, n = malformed(i), i/every
		}
		c.http1 = append(c.http1, shapes[n%len(shapes)].http1(path))
	}
	var trailing []forgery
	for i := range all - first {
		shapes := forgeries(i, path)
		if f := shapes[i%len(shapes)]; len(f.trailers) == 0 {
			c.http2 = append(c.http2, f)
		} else {
			trailing = append(trailing, f)
		}
	}
	c.http2 = append(c.http2, trailing...)
	made, _ := corpora.LoadOrStore(size{path, all}, c)
	return made.(*corpus)
}

// forge sends the forgeries of one client, and plain requests of another before and after.
func forge(t *testing.T, front *started, r *Route) {
	t.Helper()
	plain := forgery{}.http1(r.Path)
	first := pipeline(t, honest, front.addr, pause, [][]byte{plain})

	all := long.Rounds(150, 1000)
	lies := forged(r.Path, all)
	got := pipeline(t, attacker, front.addr, pause, lies.http1)
	for status, n := range streams(t, attacker, front.addr, r.Path, pause, lies.http2) {
		got[status] += n
	}
	if got[http.StatusOK] != quota {
		t.Errorf("%s: %d of %v passed, want %d", r.Path, got[http.StatusOK], got, quota)
	}
	// The rest was denied, except for requests that proxies refuse.
	if got[http.StatusTooManyRequests] < all*7/10 {
		t.Errorf("%s: too few reached the limit: %v", r.Path, got)
	}

	rest := pipeline(t, honest, front.addr, pause, bytesOf(plain, quota))
	if want := map[int]int{http.StatusOK: quota - 1, http.StatusTooManyRequests: 1}; first[http.StatusOK] != 1 || !maps.Equal(rest, want) {
		t.Errorf("%s: the honest client got %v before and %v afterwards, want %v", r.Path, first, rest, want)
	}
}

func bytesOf(request []byte, n int) (requests [][]byte) {
	for range n {
		requests = append(requests, bytes.Clone(request))
	}
	return requests
}
