package keyfuncs_test

import (
	"net/netip"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
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
			check.Equal(t, tt.name+", "+how, key.Unnamed(tt.r), tt.want)
			if tt.want != "" && !key.ReadsProxies() {
				t.Errorf("%s, %s: it reads no proxies", tt.name, how)
			}
		}
	}
	for _, key := range []keyfuncs.Func{keyfuncs.ClientIP(), keyfuncs.ClientIP(keyfuncs.Framework()), keyfuncs.Header("X-Tenant")} {
		check.Equal(t, key.Kind()+": reads proxies", key.ReadsProxies(), false)
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	trusted := keyfuncs.TrustedProxies("10.0.0.0/8")
	for _, tt := range []struct {
		name     string
		strategy keyfuncs.Strategy
		r        *request
		want     string
	}{
		{"a listed proxy with the header", trusted, from("10.0.0.1", xff, "192.0.2.1"), "X-Forwarded-For"},
		{"a listed proxy without it", trusted, &request{peer: "10.0.0.1"}, ""},
		{"a stranger with the header", trusted, from("192.0.2.1", xff, "192.0.2.7"), ""},
		{"a private peer that is not listed", trusted, from("127.0.0.1", xff, "192.0.2.7"), ""},
		{"XRealIP", keyfuncs.XRealIP("10.0.0.0/8"), from("10.0.0.1", "X-Real-Ip", "192.0.2.1"), "X-Real-Ip"},
		{"HopCount", keyfuncs.HopCount(1), from("", xff, "192.0.2.1"), "X-Forwarded-For"},
		{"the peer", keyfuncs.Peer(), from("10.0.0.1", xff, "192.0.2.1"), ""},
	} {
		check.Equal(t, tt.name, keyfuncs.ClientIP(tt.strategy).Named(tt.r), tt.want)
	}
}

func TestUnlisted(t *testing.T) {
	t.Parallel()
	trusted := keyfuncs.TrustedProxies("10.0.0.0/8")
	for _, tt := range []struct {
		name     string
		strategy keyfuncs.Strategy
		r        *request
		want     string // "" for none
	}{
		{"a loopback peer", trusted, from("127.0.0.1", xff, "192.0.2.1"), "X-Forwarded-For 127.0.0.1"},
		{"a private peer", trusted, from("192.168.0.1", xff, "192.0.2.1"), "X-Forwarded-For 192.168.0.1"},
		{"a peer of the shared space", trusted, from("100.64.0.1", xff, "192.0.2.1"), "X-Forwarded-For 100.64.0.1"},
		{"a link-local peer", trusted, from("fe80::1%eth0", xff, "192.0.2.1"), "X-Forwarded-For fe80::1"},
		{"a private peer of IPv4 in IPv6", trusted, from("::ffff:172.16.0.1", xff, "192.0.2.1"), "X-Forwarded-For 172.16.0.1"},
		{"a unix socket", trusted, from("", xff, "192.0.2.1"), "X-Forwarded-For invalid IP"},
		{"a public peer", trusted, from("192.0.2.1", xff, "192.0.2.7"), ""},
		{"a listed peer", trusted, from("10.0.0.1", xff, "192.0.2.7"), ""},
		{"a listed peer without the header", trusted, &request{peer: "10.0.0.1"}, ""},
		{"a private client of a listed peer", trusted, from("10.0.0.1", xff, "192.168.0.9"), ""},
		{"a proxy behind a listed one", trusted, from("10.0.0.1", xff, "192.0.2.7, 192.168.0.9"), "X-Forwarded-For 192.168.0.9"},
		{"the same in two lines", trusted, from("10.0.0.1", xff, "192.0.2.7", "192.168.0.9, 10.0.0.2"), "X-Forwarded-For 192.168.0.9"},
		{"a public proxy behind a listed one", trusted, from("10.0.0.1", xff, "192.0.2.7, 198.51.100.1"), ""},
		{"garbage behind a listed one", trusted, from("10.0.0.1", xff, "192.0.2.7, unknown"), ""},
		{"a chain that is trusted as a whole", trusted, from("10.0.0.1", xff, "10.0.0.3, 10.0.0.2"), ""},
		{"Forwarded", keyfuncs.Forwarded("10.0.0.0/8"), from("10.0.0.1", "Forwarded", "for=192.0.2.7, for=192.168.0.9"), "Forwarded 192.168.0.9"},
		{"XRealIP", keyfuncs.XRealIP("10.0.0.0/8"), from("127.0.0.1", "X-Real-Ip", "192.0.2.1"), "X-Real-Ip 127.0.0.1"},
		{"Cloudflare through a proxy that is not given", keyfuncs.Cloudflare(), from("127.0.0.1", xff, "104.16.0.1"), "Cf-Connecting-Ip 127.0.0.1"},
		{"the same, with others given", keyfuncs.Cloudflare("10.0.0.0/8"), from("127.0.0.1", xff, "104.16.0.1"), "X-Forwarded-For 127.0.0.1"},
		{"Cloudflare", keyfuncs.Cloudflare(), from("104.16.0.1", xff, "192.0.2.1"), ""},
		{"HopCount, which lists none", keyfuncs.HopCount(1), from("", xff, "192.0.2.1"), ""},
		{"the peer", keyfuncs.Peer(), from("127.0.0.1", xff, "192.0.2.1"), ""},
	} {
		header, addr, ok := keyfuncs.Join(keyfuncs.Method(), keyfuncs.ClientIP(tt.strategy)).Unlisted(tt.r)
		if got := header + " " + addr.String(); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%s: %q, %t, want %q", tt.name, got, ok, tt.want)
		}
	}
}
