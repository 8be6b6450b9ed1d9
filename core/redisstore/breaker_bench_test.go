package redisstore

import (
	"errors"
	"testing"

	"github.com/weblimit/weblimit/core/store"
)

// BenchmarkBreaker measures what the breaker costs a check, with as many goroutines as
// processors. While it is closed, as nearly always, each check asks it and each round trip
// reports to it. While it is open, it refuses checks. Breakers of libraries have the same
// benchmark in bench/breaker_test.go.
func BenchmarkBreaker(b *testing.B) {
	b.Run("weblimit/closed", func(b *testing.B) {
		var breaker breaker
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if breaker.isOpen() {
					b.Error("it is open")
				}
				breaker.succeeded()
			}
		})
	})
	b.Run("weblimit/open", func(b *testing.B) {
		var breaker breaker
		for range breakerFailures {
			breaker.failed(&store.Error{Class: store.ClassTimeout, Err: errors.New("no answer")}, "")
		}
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if !breaker.isOpen() {
					b.Error("it is closed")
				}
				breaker.wantsProbe()
			}
		})
	})
}
