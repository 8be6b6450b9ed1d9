package migrate

import (
	"net"
	"net/http"
	"sync"

	"golang.org/x/time/rate"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

func timeRate(mux http.Handler) http.Handler {
	var mu sync.Mutex
	visitors := map[string]*rate.Limiter{} // grows until something removes old entries
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ip, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		mu.Lock()
		if visitors[ip] == nil {
			visitors[ip] = rate.NewLimiter(2, 10)
		}
		allowed := visitors[ip].Allow()
		mu.Unlock()
		if !allowed {
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		mux.ServeHTTP(w, r)
	})
	return handler
}

func fromTimeRate(mux http.Handler) http.Handler {
	limits := nethttp.With(core.Config{Store: core.NewMemory(), HeadersWhen: core.Never})
	handler := limits.Limit(core.PerSecond(2).Burst(10).By(keyfuncs.ClientIP()))(mux)
	return handler
}
