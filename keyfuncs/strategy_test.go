package keyfuncs_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// from is a request of a peer with the lines of one header.
func from(peer, header string, lines ...string) *request {
	r := withHeader(header, lines...)
	r.peer = peer
	return r
}

// wantAddr checks the address and the key that is made of it; "" means unknown.
func wantAddr(t *testing.T, s keyfuncs.Strategy, r keyfuncs.Request, want string) {
	t.Helper()
	if err := s.Err(); err != nil {
		t.Fatalf("Err() = %v", err)
	}
	addr, ok := s.Addr(r)
	if ok != (want != "") || ok != addr.IsValid() || ok && addr.String() != want {
		t.Errorf("Addr() = %v, %t; want %q", addr, ok, want)
	}
	if addr.Is4In6() || addr.Zone() != "" {
		t.Errorf("Addr() = %v is not normal", addr)
	}
	wantKey(t, keyfuncs.ClientIP(s), r, keyfuncs.Encode("ip", want))
}

func wantStrategyErr(t *testing.T, s keyfuncs.Strategy, want string) {
	t.Helper()
	check.Equal(t, "Err", fmt.Sprint(s.Err()), want)
	if addr, ok := s.Addr(&request{peer: "192.0.2.7"}); ok {
		t.Errorf("Addr() = %v of an invalid strategy", addr)
	}
	wantErr(t, keyfuncs.ClientIP(s), want)
	wantErr(t, keyfuncs.Lookup("asn", countryOf, s), want)
	wantConditionErr(t, s.FromCIDR("192.0.2.0/24"), want)
}

// closed are the strategies that look at the peer before they read a header.
var closed = map[string]keyfuncs.Strategy{
	"Peer":           keyfuncs.Peer(),
	"TrustedProxies": keyfuncs.TrustedProxies(keyfuncs.Private, keyfuncs.CloudflareRanges),
	"XRealIP":        keyfuncs.XRealIP(keyfuncs.Private, keyfuncs.Loopback),
	"Cloudflare":     keyfuncs.Cloudflare(),
	"Cloudflare, LB": keyfuncs.Cloudflare("10.0.0.0/8"),
	"Forwarded":      keyfuncs.Forwarded(keyfuncs.Private),
	"SingleHeader":   keyfuncs.SingleHeader("True-Client-IP", "198.51.100.0/24"),
}

// addressHeaders are the address headers that proxies and frameworks know.
var addressHeaders = []string{
	"X-Forwarded-For", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Forwarded",
	"X-Client-Ip", "X-Cluster-Client-Ip", "Fastly-Client-Ip", "X-Azure-Clientip", "Remote-Addr", "X_Real_Ip", "X_Forwarded_For",
}

func TestTrap34HeadersOfAnUntrustedPeerChangeNothing(t *testing.T) {
	t.Parallel()
	for name, s := range closed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, header := range addressHeaders {
				for i := range 50 {
					for _, value := range []string{
						fmt.Sprintf("203.0.113.%d", i), fmt.Sprintf("for=203.0.113.%d", i), fmt.Sprintf("203.0.113.%d, 10.0.0.1", i),
						"192.0.2.7", "10.0.0.1", "::1", "garbage", "",
					} {
						wantAddr(t, s, from("192.0.2.7", header, value), "192.0.2.7")
						wantAddr(t, s, from("192.0.2.7", header, value, value), "192.0.2.7")
					}
				}
			}
		})
	}
}

func TestTrap34HeadersThatAreNotAskedForChangeNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		s      keyfuncs.Strategy
		peer   string
		header string
		value  string
	}{
		{"TrustedProxies", closed["TrustedProxies"], "10.0.0.1", "X-Forwarded-For", "192.0.2.7"},
		{"HopCount", keyfuncs.HopCount(1), "10.0.0.1", "X-Forwarded-For", "192.0.2.7"},
		{"XRealIP", closed["XRealIP"], "10.0.0.1", "X-Real-Ip", "192.0.2.7"},
		{"Cloudflare", closed["Cloudflare"], "104.16.0.1", "Cf-Connecting-Ip", "192.0.2.7"},
		{"Forwarded", closed["Forwarded"], "10.0.0.1", "Forwarded", "for=192.0.2.7"},
		{"SingleHeader", closed["SingleHeader"], "198.51.100.1", "True-Client-Ip", "192.0.2.7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, other := range addressHeaders {
				if other == tt.header {
					continue
				}
				r := from(tt.peer, tt.header, tt.value)
				r.headers[other] = []string{"203.0.113.9"}
				wantAddr(t, tt.s, r, "192.0.2.7")
			}
		})
	}
}

func TestNoStrategyTakesAHeaderOnAUnixSocketButHopCount(t *testing.T) {
	t.Parallel()
	headers := http.Header{
		"X-Forwarded-For": {"192.0.2.7"}, "X-Real-Ip": {"192.0.2.7"}, "True-Client-Ip": {"192.0.2.7"},
		"Cf-Connecting-Ip": {"192.0.2.7"}, "Forwarded": {"for=192.0.2.7"},
	}
	for _, s := range closed {
		wantAddr(t, s, &request{headers: headers}, "")
	}
	wantAddr(t, keyfuncs.XRealIP("0.0.0.0/0", "::/0"), &request{headers: headers}, "")
	wantAddr(t, keyfuncs.HopCount(1), &request{headers: headers}, "192.0.2.7")
}

func TestPeerIsNormal(t *testing.T) {
	t.Parallel()
	wantAddr(t, keyfuncs.Peer(), &request{peer: "::ffff:192.0.2.7"}, "192.0.2.7")
	wantAddr(t, keyfuncs.Peer(), &request{peer: "fe80::1%eth0"}, "fe80::1")
	// A trusted peer is recognised in each notation.
	for _, peer := range []string{"10.0.0.1", "::ffff:10.0.0.1", "::ffff:a00:1", "::ffff:10.0.0.1%eth0"} {
		wantAddr(t, closed["TrustedProxies"], from(peer, "X-Forwarded-For", "192.0.2.7"), "192.0.2.7")
	}
	wantAddr(t, keyfuncs.TrustedProxies("fe80::/10"), from("fe80::1%eth0", "X-Forwarded-For", "192.0.2.7"), "192.0.2.7")
}

// A framework that has an opinion.
type opinionated struct {
	*request
	ip string
}

func (r opinionated) FrameworkIP() string { return r.ip }

func TestFramework(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "192.0.2.7:80": "192.0.2.7", "::FFFF:192.0.2.7": "192.0.2.7", "2001:DB8::1": "2001:db8::1",
		"<nil>": "", "": "", "unknown": "", "192.0.2.7, 198.51.100.1": "",
	} {
		wantAddr(t, keyfuncs.Framework(), opinionated{&request{peer: "10.0.0.1"}, ip}, want)
	}
	wantAddr(t, keyfuncs.Framework(), &request{peer: "10.0.0.1"}, "")
}

func TestCustomAddr(t *testing.T) {
	t.Parallel()
	custom := func(addr string, ok bool) keyfuncs.Strategy {
		return keyfuncs.CustomAddr(func(keyfuncs.Request) (netip.Addr, bool) {
			a, _ := netip.ParseAddr(addr)
			return a, ok
		})
	}
	wantAddr(t, custom("192.0.2.7", true), &request{}, "192.0.2.7")
	wantAddr(t, custom("::ffff:192.0.2.7%eth0", true), &request{}, "192.0.2.7")
	wantAddr(t, custom("fe80::1%eth0", true), &request{}, "fe80::1")
	wantKey(t, keyfuncs.ClientIP(custom("192.0.2.7", false)), &request{}, "")
	wantAddr(t, custom("", true), &request{}, "")
}

func TestMistakesInStrategiesAreErrors(t *testing.T) {
	t.Parallel()
	const none = `no networks, say which, such as keyfuncs.Private or "192.0.2.0/24"`
	for _, tt := range []struct {
		s    keyfuncs.Strategy
		want string
	}{
		{keyfuncs.Strategy{}, "weblimit: keyfuncs: the zero Strategy finds no address, use a constructor such as keyfuncs.TrustedProxies"},
		{keyfuncs.TrustedProxies(), "weblimit: keyfuncs.TrustedProxies: " + none},
		{keyfuncs.Forwarded(), "weblimit: keyfuncs.Forwarded: " + none},
		{keyfuncs.XRealIP(), "weblimit: keyfuncs.XRealIP: " + none},
		{keyfuncs.SingleHeader("X-Client-IP"), "weblimit: keyfuncs.SingleHeader: " + none},
		{keyfuncs.SingleHeader("a b", "10.0.0.0/8"), `weblimit: keyfuncs.SingleHeader: "a b" is not a header name`},
		{keyfuncs.XRealIP("10.0.0.0/33"), `weblimit: keyfuncs.XRealIP: "10.0.0.0/33" is not a CIDR, want one such as "192.0.2.0/24"`},
		{keyfuncs.HopCount(0), "weblimit: keyfuncs.HopCount: 0 proxies, want 1 to 32"},
		{keyfuncs.HopCount(-1), "weblimit: keyfuncs.HopCount: -1 proxies, want 1 to 32"},
		{keyfuncs.HopCount(33), "weblimit: keyfuncs.HopCount: 33 proxies, want 1 to 32"},
		{keyfuncs.CustomAddr(nil), "weblimit: keyfuncs.CustomAddr: no function"},
		{
			keyfuncs.TrustedProxies("0.0.0.0/0"),
			"weblimit: keyfuncs.TrustedProxies: these networks contain every address, so clients could choose theirs; use HopCount",
		},
		{
			keyfuncs.Forwarded("10.0.0.0/8", "::/1", "8000::/1"),
			"weblimit: keyfuncs.Forwarded: these networks contain every address, so clients could choose theirs; use HopCount",
		},
	} {
		wantStrategyErr(t, tt.s, tt.want)
	}
}
