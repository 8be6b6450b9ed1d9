package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"
)

// BenchmarkBreaker measures the cost of circuit breakers of libraries for a call that does nothing
// else, with as many goroutines as processors: closed, as nearly always, and open, when calls
// are refused. The breaker of weblimit has the same benchmark beside it, in core/redisstore.
func BenchmarkBreaker(b *testing.B) {
	failure := errors.New("failure")

	newGobreaker := func() *gobreaker.CircuitBreaker[struct{}] {
		return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
			Timeout:     time.Hour,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 5 },
		})
	}
	succeed := func() (struct{}, error) { return struct{}{}, nil }
	fail := func() (struct{}, error) { return struct{}{}, failure }
	b.Run("gobreaker/closed", func(b *testing.B) {
		breaker := newGobreaker()
		calls(b, true, func() bool { _, err := breaker.Execute(succeed); return err == nil })
	})
	b.Run("gobreaker/open", func(b *testing.B) {
		breaker := newGobreaker()
		for range 5 {
			_, _ = breaker.Execute(fail)
		}
		calls(b, false, func() bool { _, err := breaker.Execute(succeed); return err == nil })
	})

	newFailsafe := func() circuitbreaker.CircuitBreaker[any] {
		return circuitbreaker.NewBuilder[any]().WithFailureThreshold(5).WithDelay(time.Hour).Build()
	}
	b.Run("failsafe-go/closed", func(b *testing.B) {
		breaker := newFailsafe()
		calls(b, true, func() bool {
			if !breaker.TryAcquirePermit() {
				return false
			}
			breaker.RecordSuccess()
			return true
		})
	})
	b.Run("failsafe-go/open", func(b *testing.B) {
		breaker := newFailsafe()
		breaker.Open()
		calls(b, false, breaker.TryAcquirePermit)
	})
}

// calls asks the breaker from many goroutines, and fails if it answers otherwise than wanted.
func calls(b *testing.B, want bool, ask func() bool) {
	b.Helper()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		wrong := false
		for pb.Next() {
			wrong = ask() != want || wrong
		}
		if wrong {
			b.Error("the breaker was in another state")
		}
	})
}
