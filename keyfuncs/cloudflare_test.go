package keyfuncs_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestCloudflare(t *testing.T) {
	t.Parallel()
	const edge, edge6 = "104.16.0.1", "2606:4700::1"
	for _, tt := range []struct {
		name, peer string
		ip, ipv6   []string
		want       string
	}{
		{"a visitor", edge, []string{"192.0.2.7"}, nil, "192.0.2.7"},
		{"a visitor through IPv6", edge6, []string{"192.0.2.7"}, nil, "192.0.2.7"},
		{"a visitor with IPv6", edge, []string{"2001:db8::7"}, nil, "2001:db8::7"},
		{"a mapped peer", "::ffff:104.16.0.1", []string{"192.0.2.7"}, nil, "192.0.2.7"},
		{"a peer that is not Cloudflare", "203.0.113.9", []string{"192.0.2.7"}, nil, "203.0.113.9"},
		{"a private peer", "10.0.0.1", []string{"192.0.2.7"}, nil, "10.0.0.1"},
		{"the second header is not read for an IPv4 visitor", edge, []string{"192.0.2.7"}, []string{"2001:db8::7"}, "192.0.2.7"},
		{"pseudo IPv4", edge, []string{"240.1.2.3"}, []string{"2001:db8::7"}, "2001:db8::7"},
		{"pseudo IPv4 at the end of class E", edge, []string{"255.255.255.255"}, []string{"2001:db8::7"}, "2001:db8::7"},
		{"pseudo IPv4, mapped", edge, []string{"::ffff:240.1.2.3"}, []string{"2001:db8::7"}, "2001:db8::7"},
		{"just below pseudo IPv4", edge, []string{"239.255.255.255"}, []string{"2001:db8::7"}, "239.255.255.255"},
		{"the last line", edge, []string{"198.51.100.1", "192.0.2.7"}, nil, "192.0.2.7"},

		{"pseudo IPv4 without the second header", edge, []string{"240.1.2.3"}, nil, ""},
		{"pseudo IPv4 with garbage", edge, []string{"240.1.2.3"}, []string{"garbage"}, ""},
		{"pseudo IPv4 with IPv4", edge, []string{"240.1.2.3"}, []string{"192.0.2.7"}, ""},
		{"pseudo IPv4 with mapped IPv4", edge, []string{"240.1.2.3"}, []string{"::ffff:192.0.2.7"}, ""},
		{"no header", edge, nil, nil, ""},
		{"the second header alone", edge, nil, []string{"2001:db8::7"}, ""},
		{"an empty header", edge, []string{""}, nil, ""},
		{"a list", edge, []string{"192.0.2.7, 198.51.100.1"}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &request{peer: tt.peer, headers: http.Header{
				"Cf-Connecting-Ip": tt.ip, "Cf-Connecting-Ipv6": tt.ipv6, "X-Forwarded-For": {"198.51.100.9"},
			}}
			wantAddr(t, keyfuncs.Cloudflare(), r, tt.want)
		})
	}
}

func TestCloudflareBehindProxies(t *testing.T) {
	t.Parallel()
	s := keyfuncs.Cloudflare("10.0.0.0/8", keyfuncs.Loopback)
	const worker = "2a06:98c0:3600::103"
	for _, tt := range []struct {
		name, peer, xff, ip, want string
	}{
		{"Cloudflare, then a proxy", "10.0.0.1", "192.0.2.7, 104.16.0.1", "192.0.2.7", "192.0.2.7"},
		{"Cloudflare, then two proxies", "127.0.0.1", "192.0.2.7, 104.16.0.1, 10.0.0.2", "192.0.2.7", "192.0.2.7"},
		{"Cloudflare alone", "104.16.0.1", "198.51.100.1", "192.0.2.7", "192.0.2.7"},
		{"past Cloudflare, at the proxy", "10.0.0.1", "192.0.2.7, 203.0.113.9", "192.0.2.7", "203.0.113.9"},
		{"past all", "203.0.113.9", "192.0.2.7, 104.16.0.1", "192.0.2.7", "203.0.113.9"},
		{"a Worker that made up X-Forwarded-For", "10.0.0.1", "198.51.100.1, " + worker + ", 104.16.0.1", worker, worker},
		{"a machine of ours", "10.0.0.1", "10.0.0.9", "192.0.2.7", "10.0.0.9"},
		{"the proxy itself", "10.0.0.1", "", "192.0.2.7", ""},
		{"garbage where Cloudflare should be", "10.0.0.1", "104.16.0.1, unknown", "192.0.2.7", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := from(tt.peer, xff, tt.xff)
			r.headers["Cf-Connecting-Ip"] = []string{tt.ip}
			wantAddr(t, s, r, tt.want)
		})
	}
	wantStrategyErr(t, keyfuncs.Cloudflare("10.0.0.0/8", keyfuncs.CloudflareRanges), `weblimit: keyfuncs.Cloudflare: "cloudflare" is not one of your proxies in between`)
	wantStrategyErr(t, keyfuncs.Cloudflare("10.0.0.0/88"), `weblimit: keyfuncs.Cloudflare: "10.0.0.0/88" is not a CIDR, want one such as "192.0.2.0/24"`)
}

// Not parallel: the ranges are the process's.
func TestCloudflareRangesAreReplacedAtRunTime(t *testing.T) {
	cloudflare := []string{
		"173.245.48.0/20", "103.21.244.0/22", "103.22.200.0/22", "103.31.4.0/22", "141.101.64.0/18",
		"108.162.192.0/18", "190.93.240.0/20", "188.114.96.0/20", "197.234.240.0/22", "198.41.128.0/17",
		"162.158.0.0/15", "104.16.0.0/13", "104.24.0.0/14", "172.64.0.0/13", "131.0.72.0/22",
		"2400:cb00::/32", "2606:4700::/32", "2803:f800::/32", "2405:b500::/32", "2405:8100::/32",
		"2a06:98c0::/29", "2c0f:f248::/32",
	}
	t.Cleanup(func() {
		check.OK(t, keyfuncs.SetCloudflareRanges(cloudflare...))
	})
	direct, behindProxy := keyfuncs.Cloudflare(), keyfuncs.TrustedProxies(keyfuncs.CloudflareRanges, "10.0.0.0/8")
	want := func(edge, direct1, proxied string) {
		t.Helper()
		wantAddr(t, direct, from(edge, "Cf-Connecting-Ip", "192.0.2.7"), direct1)
		wantAddr(t, behindProxy, from("10.0.0.1", xff, "192.0.2.7, "+edge), proxied)
	}
	want("104.16.0.1", "192.0.2.7", "192.0.2.7")
	want("198.51.100.1", "198.51.100.1", "198.51.100.1")

	must.OK(t, keyfuncs.SetCloudflareRanges("198.51.100.0/24", "2001:db8::/32"))
	want("104.16.0.1", "104.16.0.1", "104.16.0.1")
	want("198.51.100.1", "192.0.2.7", "192.0.2.7")

	// A bad list changes nothing.
	for _, tt := range []struct {
		cidrs []string
		want  string
	}{
		{nil, `no networks, say which, such as keyfuncs.Private or "192.0.2.0/24"`},
		{[]string{"104.16.0.0/13", "<html>"}, `"<html>" is not a CIDR, want one such as "192.0.2.0/24"`},
		{[]string{keyfuncs.CloudflareRanges}, `"cloudflare" is the name of the list that is being set`},
		{[]string{"0.0.0.0/0", "2606:4700::/32"}, "these networks contain every address"},
	} {
		err := keyfuncs.SetCloudflareRanges(tt.cidrs...)
		check.Equal(t, fmt.Sprintf("%q", tt.cidrs), fmt.Sprint(err), "weblimit: keyfuncs.SetCloudflareRanges: "+tt.want)
	}
	want("198.51.100.1", "192.0.2.7", "192.0.2.7")

	// While requests are served.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				if _, ok := direct.Addr(from("198.51.100.1", "Cf-Connecting-Ip", "192.0.2.7")); !ok {
					t.Error("no address")
				}
			}
		})
	}
	for range 100 {
		check.OK(t, keyfuncs.SetCloudflareRanges("198.51.100.0/24"))
	}
	wg.Wait()
}
