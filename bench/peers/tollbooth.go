package peers

import (
	"net/http"

	tollboothv8 "github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"
)

var tollBooth = Peer{
	Name: "tollbooth", Module: "github.com/didip/tollbooth/v8", Counts: "token bucket in floating point",
	HTTP: func(q Quota) (func(http.Handler) http.Handler, error) {
		l := tollboothv8.NewLimiter(float64(q.Units)/q.Window.Seconds(), &limiter.ExpirableOptions{DefaultExpirationTTL: q.Window})
		l.SetBurst(int(q.Units)).SetIPLookup(limiter.IPLookup{Name: "RemoteAddr"})
		return tollboothv8.HTTPMiddleware(l), nil
	},
}
