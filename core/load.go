package core

import (
	"context"
	"math/bits"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Load measures how busy the handlers behind it are: how many requests are in
// flight, and how long those took that ended in the last 10 seconds. Its factor
// makes limits that become tighter while the service is overloaded:
//
//	load := new(core.Load)
//	limit := core.PerSecond(100).By(keyfuncs.ClientIP()).Scale(load.Factor(200, 500*time.Millisecond))
//	http.ListenAndServe(addr, limiter(load.Middleware(mux)))
//
// Put it behind the limiter, so that it measures what is let through. It takes 7
// KB, runs no goroutine, and its zero value is ready to use. A Load is safe for
// concurrent use and must not be copied.
type Load struct {
	inFlight atomic.Int64

	mu      sync.Mutex
	seconds [loadSeconds]loadSecond // a ring. Guarded by mu.
}

// loadSecond counts what ended within a second.
type loadSecond struct {
	at     int64 // the second, since the epoch
	counts [loadSteps]uint32
}

const (
	loadSeconds = 10

	// loadSteps are durations from a microsecond to 76 hours, four to each doubling.
	loadSteps = 4 * 38
)

// Begin counts a request in, and done counts it out, once however often it is
// called: for frameworks whose middleware is no http.Handler.
//
//	defer load.Begin()()
func (l *Load) Begin() (done func()) {
	start := time.Now()
	l.inFlight.Add(1)
	var ended atomic.Bool
	return func() {
		if ended.CompareAndSwap(false, true) {
			l.end(start)
		}
	}
}

// Middleware measures a handler of net/http.
func (l *Load) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.inFlight.Add(1)
		defer l.end(time.Now()) // whatever the handler does: it may panic
		next.ServeHTTP(w, r)
	})
}

func (l *Load) end(start time.Time) {
	l.inFlight.Add(-1)
	second := time.Now().Unix()
	step := loadStep(time.Since(start))
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.seconds[uint64(second)%loadSeconds]
	if s.at != second {
		*s = loadSecond{at: second}
	}
	s.counts[step]++
}

// loadStep returns the step of a duration: its highest three bits.
func loadStep(d time.Duration) int {
	micros := uint64(max(d/time.Microsecond, 1))
	octave := bits.Len64(micros) - 1
	quarter := micros << 2 >> octave & 3
	return min(octave*4+int(quarter), loadSteps-1)
}

// loadBound returns the end of a step.
func loadBound(step int) time.Duration {
	return time.Duration(uint64(step%4+5)<<(step/4)) * time.Microsecond / 4
}

// InFlight returns how many requests are in flight.
func (l *Load) InFlight() int { return int(l.inFlight.Load()) }

// P99 returns how long 99 of 100 requests took at most that ended in the last 10
// seconds, up to a quarter more than it was: 0 if there were none.
func (l *Load) P99() time.Duration {
	now := time.Now().Unix()
	var counts [loadSteps]uint64
	total := uint64(0)
	l.mu.Lock()
	for i := range l.seconds {
		if s := &l.seconds[i]; now-s.at >= 0 && now-s.at < loadSeconds { // a clock may be set back
			for step, n := range s.counts {
				counts[step] += uint64(n)
				total += uint64(n)
			}
		}
	}
	l.mu.Unlock()
	slower := total / 100 // so many may be
	for step := loadSteps - 1; step >= 0; step-- {
		if counts[step] > slower {
			return loadBound(step)
		}
		slower -= counts[step]
	}
	return 0
}

// Factor returns a function for [Limit.Scale]: it falls from 1 while more requests
// are in flight than maxInFlight, or P99 is above maxP99, by what they are exceeded
// by and at most to 0.7 of what it was, once a second; and it rises by 0.05 a second
// when neither is. Its least is 0.05. What is not above 0 is not looked at. Limits
// may share the function.
func (l *Load) Factor(maxInFlight int, maxP99 time.Duration) func(context.Context) float64 {
	var mu sync.Mutex
	factor, due := 1.0, time.Time{}
	return func(context.Context) float64 {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if now.Before(due) {
			return factor
		}
		due = now.Add(scaleEvery * 9 / 10) // who asks each second asks not quite on time
		excess := 0.0
		if maxInFlight > 0 {
			excess = float64(l.inFlight.Load()) / float64(maxInFlight)
		}
		if maxP99 > 0 {
			excess = max(excess, float64(l.P99())/float64(maxP99))
		}
		if excess > 1 {
			factor *= max(1/excess, 0.7)
		} else {
			factor += 1.0 / scaleSteps
		}
		factor = min(max(factor, 1.0/scaleSteps), 1)
		return factor
	}
}
