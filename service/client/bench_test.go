package client_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
)

// BenchmarkLimiter is a decision by the service on loopback, through a limiter of the client.
func BenchmarkLimiter(b *testing.B) {
	s, err := service.New(service.Config{Policies: policies{"api": {core.PerSecond(1e9).By(keyfuncs.User("user")).Named("user")}}, Store: core.NewMemory()})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(s)
	defer server.Close()
	c, err := client.New(client.Config{URL: server.URL, Timeout: 5 * time.Second, OnOutage: client.OnOutage{Action: core.Deny}, Send: client.Fields{Values: []string{"user"}}})
	if err != nil {
		b.Fatal(err)
	}
	l, err := c.Limiter(core.Config{Store: c.Store()}, "api")
	if err != nil {
		b.Fatal(err)
	}
	values := keyfuncs.Values{"user": "ann", "route": "/items/{id}"}
	allow := func(b *testing.B) {
		if d := l.Allow(values); d.Err != nil {
			b.Error(d.Err)
		}
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			allow(b)
		}
	})
	b.Run("many", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(64)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				allow(b)
			}
		})
	})
}
