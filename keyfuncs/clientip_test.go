package keyfuncs_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Trap 36.
func TestClientIPGoesByBitsNotByNotation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, peer, want string }{
		{"IPv4 is keyed in full", "1.2.3.4", "ip:1.2.3.4"},
		{"IPv4 mapped into IPv6 is IPv4", "::ffff:1.2.3.4", "ip:1.2.3.4"},
		{"IPv4 mapped in hexadecimal is IPv4", "::ffff:102:304", "ip:1.2.3.4"},
		{"IPv4 mapped in full upper case is IPv4", "0:0:0:0:0:FFFF:0102:0304", "ip:1.2.3.4"},
		{"IPv4 mapped with a zone is IPv4", "::ffff:1.2.3.4%eth0", "ip:1.2.3.4"},
		{"IPv4-compatible is IPv6", "::1.2.3.4", "ip:::/64"},
		{"IPv6 written with dots is IPv6", "2001:db8::1.2.3.4", "ip:2001:db8::/64"},
		{"IPv4 translated by NAT64 is IPv6", "64:ff9b::1.2.3.4", "ip:64:ff9b::/64"},
		{"a zone is ignored", "fe80::1%eth0", "ip:fe80::/64"},
		{"another zone too", "fe80::1%en1", "ip:fe80::/64"},
		{"upper case is lower case", "2001:DB8:0:AB::F", "ip:2001:db8:0:ab::/64"},
		{"zeros are folded", "2001:0db8:0000:00ab:0000:0000:0000:000f", "ip:2001:db8:0:ab::/64"},
		{"the last address of a /64 is in it", "2001:db8:0:ab:ffff:ffff:ffff:ffff", "ip:2001:db8:0:ab::/64"},
		{"the next /64 is another client", "2001:db8:0:ac::", "ip:2001:db8:0:ac::/64"},
		{"loopback IPv6 is keyed too", "::1", "ip:::/64"},
		{"no peer has no key", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantKey(t, keyfuncs.ClientIP(), &request{peer: tt.peer}, tt.want)
		})
	}
}

func TestClientIPOfManyAddressesInOne64IsOneBucket(t *testing.T) {
	t.Parallel()
	for i := range 1 << 16 {
		key, _ := keyfuncs.ClientIP().Key(&request{peer: fmt.Sprintf("2001:db8:0:ab:%x::%x", i, i)})
		must.Equal(t, "the key of an address in the /64", key, "ip:2001:db8:0:ab::/64")
	}
}

func TestClientIPOfIPv4NeverCollapses(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range 1 << 16 {
		peer := fmt.Sprintf("%d.0.2.%d", i>>8, i&255)
		plain, _ := keyfuncs.ClientIP().Key(&request{peer: peer})
		mapped, _ := keyfuncs.ClientIP().Key(&request{peer: "::ffff:" + peer})
		if plain != mapped || seen[plain] {
			t.Fatalf("%s has key %q, mapped %q, seen before: %t", peer, plain, mapped, seen[plain])
		}
		seen[plain] = true
	}
}

// Trap 34.
func TestClientIPReadsNoHeader(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"X-Forwarded-For", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Forwarded", "X-Client-Ip", "Remote-Addr",
	} {
		for i := range 100 {
			r := withHeader(name, fmt.Sprintf("198.51.100.%d", i))
			r.peer = "192.0.2.7"
			wantKey(t, keyfuncs.ClientIP(), r, "ip:192.0.2.7")
		}
	}
	// Nor where the peer is unknown.
	wantKey(t, keyfuncs.ClientIP(), &request{headers: http.Header{"X-Forwarded-For": {"192.0.2.7"}}}, "")
}

func TestIPv6Prefix(t *testing.T) {
	t.Parallel()
	const peer = "2001:db8:1:2ff:4:5:6:7"
	for bits, want := range map[int]string{
		32: "ip:2001:db8::/32", 48: "ip:2001:db8:1::/48", 56: "ip:2001:db8:1:200::/56",
		64: "ip:2001:db8:1:2ff::/64", 128: "ip:2001:db8:1:2ff:4:5:6:7/128",
	} {
		f := keyfuncs.ClientIP(keyfuncs.IPv6Prefix(bits))
		wantKey(t, f, &request{peer: peer}, want)
		wantKey(t, f, &request{peer: peer}, keyfuncs.Encode("ip", strings.TrimPrefix(want, "ip:")))
		// IPv4 counts in full.
		wantKey(t, f, &request{peer: "192.0.2.7"}, "ip:192.0.2.7")
		wantKey(t, f, &request{peer: "::ffff:192.0.2.7"}, "ip:192.0.2.7")
	}
	wantKey(t, keyfuncs.ClientIP(keyfuncs.IPv6Prefix(48), keyfuncs.HopCount(1)), from("", xff, peer), "ip:2001:db8:1::/48")
	wantKey(t, keyfuncs.ClientIP(keyfuncs.HopCount(1), keyfuncs.IPv6Prefix(48)), from("", xff, peer), "ip:2001:db8:1::/48")
}

func TestOptionsOfClientIPAreChecked(t *testing.T) {
	t.Parallel()
	bits := keyfuncs.IPv6Prefix
	wantErr(t, keyfuncs.ClientIP(bits(31)), "weblimit: keyfuncs.IPv6Prefix: 31 bits, want 32 to 128")
	wantErr(t, keyfuncs.ClientIP(bits(129)), "weblimit: keyfuncs.IPv6Prefix: 129 bits, want 32 to 128")
	wantErr(t, keyfuncs.ClientIP(bits(0)), "weblimit: keyfuncs.IPv6Prefix: 0 bits, want 32 to 128")
	wantErr(t, keyfuncs.ClientIP(bits(-64)), "weblimit: keyfuncs.IPv6Prefix: -64 bits, want 32 to 128")
	wantErr(t, keyfuncs.ClientIP(bits(64), bits(56)), "weblimit: keyfuncs.ClientIP: 2 options IPv6Prefix, want one")
	wantErr(t, keyfuncs.ClientIP(keyfuncs.Cloudflare(), keyfuncs.XRealIP("10.0.0.1")), "weblimit: keyfuncs.ClientIP: 2 strategies, want one")
	wantErr(t, keyfuncs.ClientIP(nil), "weblimit: keyfuncs.ClientIP: an option is nil")
}
