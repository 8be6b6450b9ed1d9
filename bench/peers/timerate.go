package peers

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// timeRate is what many programs have: a map of limiters that only grows.
var timeRate = Peer{
	Name: "x-time-rate", Module: "golang.org/x/time", Counts: "token bucket, in floats; a map that never forgets",
	Memory: func(q Quota) (Limiter, error) {
		var mu sync.RWMutex
		limiters := map[string]*rate.Limiter{} // Guarded by mu.
		every := rate.Every(q.Window / time.Duration(q.Units))
		get := func(key string) *rate.Limiter {
			mu.RLock()
			l := limiters[key]
			mu.RUnlock()
			if l != nil {
				return l
			}
			mu.Lock()
			defer mu.Unlock()
			if l = limiters[key]; l == nil {
				l = rate.NewLimiter(every, int(q.Units))
				limiters[key] = l
			}
			return l
		}
		return Limiter{Check: func(_ context.Context, key string) (bool, error) {
			return get(key).Allow(), nil
		}}, nil
	},
}
