package grpclimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// seconds are in headers, and depend on the speed of the machine.
var seconds = regexp.MustCompile(`(t=|reset=|Retry in )\d+`)

// Random requests have the same decisions, headers and messages as over net/http.
func TestTheSameAsOverHTTP(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour // a window that ends between two requests would tell them apart
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		limits := func(prefix string) *core.Limiter {
			return limiter(t, core.Config{Store: store, Headers: core.Draft11 | core.Draft03 | core.XRateLimitDelta, Limits: []core.Limit{
				core.PerDay(12).By(keyfuncs.Header("X-Tenant")).Named(prefix + ".tenant").WarnAt(0.5),
				core.Per(6, year).FixedWindow().By(keyfuncs.APIKey("X-API-Key")).Named(prefix + ".apikey").OnMissingKey(core.SkipLimit),
				core.Per(40, year).SlidingWindow().By(keyfuncs.ClientIP(keyfuncs.TrustedProxies("127.0.0.0/8", "192.0.2.0/24"))).Named(prefix + ".address"),
			}})
		}
		over := nethttp.New(limits("a"))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		s := serve(t, &service{}, grpclimit.New(limits("b")))
		random := rand.New(rand.NewPCG(1, 2))
		for n := range 150 {
			var pairs []string
			add := func(name string, times, of int) {
				for range times {
					pairs = append(pairs, name, fmt.Sprintf("192.0.2.%d", random.IntN(of)))
				}
			}
			add("x-tenant", []int{0, 1, 1, 1, 1, 2}[random.IntN(6)], 3)
			add("x-api-key", []int{0, 1, 1, 1, 2}[random.IntN(5)], 3)
			add("x-forwarded-for", random.IntN(3), 250)

			r := httptest.NewRequest("POST", "/", nil)
			r.RemoteAddr = "127.0.0.1:80"
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Add(pairs[i], pairs[i+1])
			}
			w := httptest.NewRecorder()
			over.ServeHTTP(w, r)

			a := s.call(say, pairs...)
			code := map[int]codes.Code{200: codes.OK, 400: codes.InvalidArgument, 401: codes.Unauthenticated, 429: codes.ResourceExhausted}[w.Code]
			if a.code != code {
				t.Fatalf("%d: %v: %v, HTTP has %d: %s", n, pairs, a.code, w.Code, w.Body)
			}
			for _, name := range core.ExposeHeaders() {
				if code == codes.ResourceExhausted && strings.Contains(name, "RateLimit") && name != "RateLimit-Policy" {
					continue // a store repeats denials for a while, with the numbers of the first
				}
				http, rpc := join(w.Header().Values(name)), join(metadata.Join(a.header, a.trailer)[strings.ToLower(name)])
				rpc = strings.ReplaceAll(rpc, `"b.`, `"a.`)
				if strings.HasSuffix(name, "-Reset") || name == "Retry-After" {
					http, rpc = fmt.Sprint(http != ""), fmt.Sprint(rpc != "")
				}
				want(t, fmt.Sprint(n, " ", name), seconds.ReplaceAllString(rpc, "$1"), seconds.ReplaceAllString(http, "$1"))
			}
			if code != codes.OK {
				said, in := seconds.ReplaceAllString(a.status.Message(), "$1"), seconds.ReplaceAllString(w.Body.String(), "$1")
				want(t, fmt.Sprintf("%d: %q is the detail of %s", n, said, in), strings.Contains(in, `"detail":"`+said+`"`), true)
			}
		}
	})
}

func join(values []string) string { return strings.Join(values, ", ") }
