package redisstore

import (
	"errors"
	"testing"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/breaker"
)

// BenchmarkBreaker measures what the breaker costs a check, with as many goroutines as
// processors. While it is closed, as nearly always, each check asks it and each round trip
// reports to it. While it is open, it refuses checks. Breakers of libraries have the same
// benchmark in bench/breaker_test.go.
func BenchmarkBreaker(b *testing.B) {
	b.Run("weblimit/closed", func(b *testing.B) {
		var h health
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if h.breaker.IsOpen() {
					b.Error("it is open")
				}
				h.breaker.Answered()
			}
		})
	})
	b.Run("weblimit/open", func(b *testing.B) {
		var h health
		for range breaker.Failures {
			h.breaker.Failed(&store.Error{Class: store.ClassTimeout, Err: errors.New("no answer")})
		}
		h.breaker.TakeTurn() // for a timer
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if !h.breaker.IsOpen() {
					b.Error("it is closed")
				}
				h.wantsProbe()
			}
		})
	})
}
