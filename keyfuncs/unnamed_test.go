package keyfuncs_test

import (
	"net/netip"
	"testing"

	"github.com/weblimit/weblimit/keyfuncs"
)

func TestUnnamed(t *testing.T) {
	t.Parallel()
	const proxy, stranger, cloudflare = "10.0.0.1", "192.0.2.1", "104.16.0.1"
	trusted := keyfuncs.TrustedProxies("10.0.0.0/8")
	for _, tt := range []struct {
		name     string
		strategy keyfuncs.Strategy
		r        *request
		want     string
	}{
		{"a proxy without the header", trusted, &request{peer: proxy}, "X-Forwarded-For"},
		{"a proxy with another header", trusted, from(proxy, "X-Real-Ip", "192.0.2.1"), "X-Forwarded-For"},
		{"a proxy with the header", trusted, from(proxy, xff, "192.0.2.1"), ""},
		{"a proxy with garbage, which is another matter", trusted, from(proxy, xff, ""), ""},
		{"no proxy", trusted, &request{peer: stranger}, ""},
		{"a unix socket", trusted, &request{}, ""},
		{"Forwarded", keyfuncs.Forwarded("10.0.0.0/8"), from(proxy, xff, "192.0.2.1"), "Forwarded"},
		{"XRealIP", keyfuncs.XRealIP("10.0.0.0/8"), &request{peer: proxy}, "X-Real-Ip"},
		{"SingleHeader", keyfuncs.SingleHeader("Fastly-Client-IP", "10.0.0.0/8"), &request{peer: proxy}, "Fastly-Client-Ip"},
		{"SingleHeader with it", keyfuncs.SingleHeader("Fastly-Client-IP", "10.0.0.0/8"), from(proxy, "Fastly-Client-Ip", "192.0.2.1"), ""},
		{"HopCount", keyfuncs.HopCount(1), &request{}, "X-Forwarded-For"},
		{"HopCount with it", keyfuncs.HopCount(2), from(stranger, xff, "192.0.2.1"), ""},
		{"Cloudflare", keyfuncs.Cloudflare(), &request{peer: cloudflare}, "Cf-Connecting-Ip"},
		{"Cloudflare with it", keyfuncs.Cloudflare(), from(cloudflare, "Cf-Connecting-Ip", "192.0.2.1"), ""},
		{"Cloudflare, past it", keyfuncs.Cloudflare(), &request{peer: stranger}, ""},
		{"a proxy behind Cloudflare", keyfuncs.Cloudflare("10.0.0.0/8"), &request{peer: proxy}, "X-Forwarded-For"},
		{"a proxy behind Cloudflare that names it", keyfuncs.Cloudflare("10.0.0.0/8"), from(proxy, xff, cloudflare), "Cf-Connecting-Ip"},
		{"the peer", keyfuncs.Peer(), &request{peer: proxy}, ""},
		{"the framework", keyfuncs.Framework(), &request{peer: proxy}, ""},
	} {
		for how, key := range map[string]keyfuncs.Func{
			"alone":  keyfuncs.ClientIP(tt.strategy),
			"joined": keyfuncs.Join(keyfuncs.Method(), keyfuncs.ClientIP(tt.strategy)),
			"first":  keyfuncs.First(keyfuncs.User("u"), keyfuncs.ClientIP(tt.strategy)),
			"lookup": keyfuncs.Lookup("asn", func(netip.Addr) (string, bool) { return "1", true }, tt.strategy),
		} {
			if got := key.Unnamed(tt.r); got != tt.want {
				t.Errorf("%s, %s: %q, want %q", tt.name, how, got, tt.want)
			}
			if tt.want != "" && !key.ReadsProxies() {
				t.Errorf("%s, %s: it reads no proxies", tt.name, how)
			}
		}
	}
	if keyfuncs.ClientIP().ReadsProxies() || keyfuncs.ClientIP(keyfuncs.Framework()).ReadsProxies() || keyfuncs.Header("X-Tenant").ReadsProxies() {
		t.Error("keys that read no header of proxies do")
	}
}
