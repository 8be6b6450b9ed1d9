package keyfuncs_test

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Not parallel: testing.AllocsPerRun counts the allocations of the process.
func TestStrategiesDoNotAllocate(t *testing.T) {
	proxies := keyfuncs.TrustedProxies(keyfuncs.Private, keyfuncs.CloudflareRanges)
	forwarded := keyfuncs.Forwarded(keyfuncs.Private)
	for _, tt := range []struct {
		name string
		s    keyfuncs.Strategy
		r    keyfuncs.Request
	}{
		{"the peer", keyfuncs.Peer(), &request{peer: "::ffff:192.0.2.7"}},
		{"Cloudflare", keyfuncs.Cloudflare(), from("104.16.0.1", "Cf-Connecting-Ip", "2001:db8::7")},
		{"not Cloudflare", keyfuncs.Cloudflare(), from("192.0.2.7", "Cf-Connecting-Ip", "2001:db8::7")},
		{"pseudo IPv4", keyfuncs.Cloudflare(), &request{peer: "2606:4700::1", headers: http.Header{
			"Cf-Connecting-Ip": {"240.0.0.1"}, "Cf-Connecting-Ipv6": {"2001:db8::7"},
		}}},
		{"Cloudflare and proxies", keyfuncs.Cloudflare("10.0.0.0/8"), &request{peer: "10.0.0.1", headers: http.Header{
			"Cf-Connecting-Ip": {"192.0.2.7"}, xff: {"192.0.2.7, 104.16.0.1"},
		}}},
		{"one proxy", proxies, from("10.0.0.1", xff, "192.0.2.7")},
		{"proxies, lines, ports and zones", proxies, from("10.0.0.1", xff, "[fe80::1%eth0]:80, [fd00::1]:80", "104.16.0.1, 10.0.0.2:80")},
		{"no proxy", proxies, from("192.0.2.7", xff, "198.51.100.1")},
		{"hops", keyfuncs.HopCount(3), from("", xff, "garbage, 192.0.2.7, 10.0.0.3", "10.0.0.2")},
		{"X-Real-IP", keyfuncs.XRealIP(keyfuncs.Private), from("10.0.0.1", "X-Real-Ip", "192.0.2.7")},
		{"Forwarded", forwarded, from("10.0.0.1", "Forwarded", `for="[2001:db8::7]:80";ext="\"", for=10.0.0.2;by=x`)},
		{"the framework", keyfuncs.Framework(), opinionated{&request{}, "192.0.2.7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, dst := keyfuncs.ClientIP(tt.s, keyfuncs.IPv6Prefix(56)), make([]byte, 0, 256)
			var key []byte
			if allocs := testing.AllocsPerRun(100, func() { key, _ = f.Append(dst, tt.r) }); allocs != 0 || len(key) == 0 {
				t.Errorf("%v allocations for %q", allocs, key)
			}
		})
	}
}

// What a client sends must not cost more than it sends: netip's errors and
// nothing else, however long the header is.
func TestGarbageAllocatesNextToNothing(t *testing.T) {
	for name, lines := range map[string][]string{
		"a megabyte without commas": {strings.Repeat("1", 1<<20)},
		"a megabyte of commas":      {strings.Repeat(",", 1<<20)},
		"a megabyte of quotes":      {strings.Repeat(`"`, 1<<20)},
		"a megabyte of backslashes": {`for="` + strings.Repeat(`\`, 1<<20) + `"`},
		"a megabyte of escapes":     {`for="` + strings.Repeat(`\"`, 1<<19) + `"`},
		"a megabyte of pairs":       {strings.Repeat("a=b;", 1<<18)},
		"a megabyte of a name":      {strings.Repeat("a", 1<<20) + "=b"},
		"zones":                     {"10.0.0.1, fe80::1%" + strings.Repeat("z", 100)},
		"ten thousand entries":      {strings.Repeat("10.0.0.2,", 10_000) + "10.0.0.2"},
		"ten thousand lines":        slices.Repeat([]string{"10.0.0.2"}, 10_000),
		"ten thousand empty lines":  make([]string, 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			for _, header := range []string{xff, "Forwarded", "X-Real-Ip"} {
				r := from("10.0.0.1", header, lines...)
				for _, s := range []keyfuncs.Strategy{
					keyfuncs.TrustedProxies(keyfuncs.Private), keyfuncs.HopCount(32),
					keyfuncs.Forwarded(keyfuncs.Private), keyfuncs.XRealIP(keyfuncs.Private),
				} {
					if allocs := testing.AllocsPerRun(3, func() { s.Addr(r) }); allocs > 2 {
						t.Errorf("%s: %v allocations", header, allocs)
					}
				}
			}
		})
	}
}

// Not parallel: see above.
func TestConditionsDoNotAllocate(t *testing.T) {
	r := &request{
		peer: "10.0.0.1", method: "HEAD", route: "/users/:id",
		headers: http.Header{"X-Bypass-Token": {partner}, xff: {"198.51.100.1"}, "Origin": {"a"}, "Access-Control-Request-Method": {"PUT"}},
	}
	c := keyfuncs.Any(
		keyfuncs.Routes("GET /healthz", "POST /users/:id"),
		keyfuncs.Methods("POST", "PUT"),
		keyfuncs.Tokens("X-Bypass-Token", monitoring, monitoring+"2"),
		keyfuncs.FromCIDR("192.0.2.0/24"),
		keyfuncs.TrustedProxies(keyfuncs.Private).FromCIDR("192.0.2.0/24"),
		keyfuncs.Not(keyfuncs.All(keyfuncs.Methods("GET"))),
		keyfuncs.Preflight(),
	)
	wantMatch(t, c, r, false)
	check.Equal(t, "allocations", testing.AllocsPerRun(100, func() { c.Match(r) }), 0)
}

func BenchmarkClientIP(b *testing.B) {
	peer := netip.MustParseAddr("10.0.0.1")
	for _, bm := range []struct {
		name string
		s    keyfuncs.Strategy
		r    *request
	}{
		{"Peer", keyfuncs.Peer(), &request{}},
		{"TrustedProxies", keyfuncs.TrustedProxies(keyfuncs.Private), from("", xff, "192.0.2.7, 10.0.0.2")},
		{"Forwarded", keyfuncs.Forwarded(keyfuncs.Private), from("", "Forwarded", "for=192.0.2.7;proto=https")},
		{"XRealIP", keyfuncs.XRealIP(keyfuncs.Private), from("", "X-Real-Ip", "192.0.2.7")},
	} {
		b.Run(bm.name, func(b *testing.B) {
			f, dst, r := keyfuncs.ClientIP(bm.s), make([]byte, 0, 256), peered{bm.r, peer}
			b.ReportAllocs()
			for b.Loop() {
				f.Append(dst, &r)
			}
		})
	}
}

// peered knows its peer without parsing.
type peered struct {
	*request
	addr netip.Addr
}

func (r *peered) Peer() netip.Addr { return r.addr }
