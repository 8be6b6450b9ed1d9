package weblimittest_test

import (
	"net"
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// limit stands for an adapter, which the tests of this package don't import: they would then add
// to the go.sum of whoever imports it.
func limit(store core.Store, next http.HandlerFunc, limits ...core.Limit) http.Handler {
	return limitBy(core.Must(core.New(core.Config{Store: store, Limits: limits})), next)
}

func limitBy(limiter *core.Limiter, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		d := limiter.Allow(keyfuncs.Values{"ip": host, "method": r.Method})
		d.SetHeaders(w.Header())
		if d.Allowed {
			next(w, r)
			return
		}
		body, _ := d.AppendProblem(nil, "")
		w.Header().Set("Content-Type", core.ProblemType)
		w.WriteHeader(d.Status())
		_, _ = w.Write(body)
	})
}
