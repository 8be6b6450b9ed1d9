package service

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

var benchPolicies = policies{"api": {core.PerSecond(1e9).By(keyfuncs.ClientIP()).Named("client"), core.PerHour(1e9).By(keyfuncs.User("user")).Named("user")}}

const benchBody = `{"policy":"api","request":{"method":"GET","route":"/items/{id}","client_ip":"192.0.2.1","values":{"user":"ann"}}}`

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// rewound is a body that can be read again.
type rewound struct{ bytes.Reader }

func (*rewound) Close() error { return nil }

// BenchmarkDecision is a decision by the library, without a service.
func BenchmarkDecision(b *testing.B) {
	l, err := benchPolicies.Limiter(core.Config{Store: core.NewMemory()}, "api")
	if err != nil {
		b.Fatal(err)
	}
	values := keyfuncs.Values{"ip": "192.0.2.1", "user": "ann"}
	b.ReportAllocs()
	for b.Loop() {
		l.Allow(values)
	}
}

// BenchmarkHandler is a check without a network.
func BenchmarkHandler(b *testing.B) {
	s := newService(b, func(c *Config) { c.Policies = benchPolicies })
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/check", nil)
	r.Header.Set("Content-Type", "application/json")
	body := new(rewound)
	r.Body, r.ContentLength = body, int64(len(benchBody))
	b.ReportAllocs()
	for b.Loop() {
		body.Reset([]byte(benchBody))
		s.ServeHTTP(&discard{make(http.Header, 8)}, r)
	}
}

// BenchmarkLoopback is a check over HTTP/1.1 on loopback, by one connection after the other and by many.
func BenchmarkLoopback(b *testing.B) {
	server := httptest.NewServer(newService(b, func(c *Config) { c.Policies = benchPolicies }))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	check := func(b *testing.B) {
		r, err := client.Post(server.URL+"/v1/check", "application/json", bytes.NewReader([]byte(benchBody)))
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			check(b)
		}
	})
	b.Run("many", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				check(b)
			}
		})
	})
}
