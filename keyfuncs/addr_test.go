package keyfuncs_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestTrap36NotationsOfOneAddressAreOneAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, value, want string }{
		{"IPv4", "1.2.3.4", "1.2.3.4"},
		{"IPv4 with a port", "1.2.3.4:443", "1.2.3.4"},
		{"IPv4 with the highest port", "1.2.3.4:65535", "1.2.3.4"},
		{"IPv4 with a hidden port", "1.2.3.4:_p-1", "1.2.3.4"},
		{"blanks around", " \t1.2.3.4 \t", "1.2.3.4"},
		{"IPv4 mapped into IPv6", "::ffff:1.2.3.4", "1.2.3.4"},
		{"IPv4 mapped, in brackets", "[::ffff:1.2.3.4]", "1.2.3.4"},
		{"IPv4 mapped, in brackets with a port", "[::ffff:1.2.3.4]:80", "1.2.3.4"},
		{"IPv4 mapped, in hexadecimal", "::ffff:102:304", "1.2.3.4"},
		{"IPv4 mapped, in full and upper case", "0:0:0:0:0:FFFF:0102:0304", "1.2.3.4"},
		{"IPv4 mapped, with a zone", "::ffff:1.2.3.4%eth0", "1.2.3.4"},
		{"IPv4-compatible is IPv6", "::1.2.3.4", "::102:304"},
		{"IPv6 written with dots", "2001:db8::1.2.3.4", "2001:db8::102:304"},
		{"NAT64", "64:ff9b::1.2.3.4", "64:ff9b::102:304"},
		{"IPv6", "2001:db8::1", "2001:db8::1"},
		{"IPv6 in upper case", "2001:DB8::AB", "2001:db8::ab"},
		{"IPv6 with all zeros", "2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"},
		{"IPv6 in brackets", "[2001:db8::1]", "2001:db8::1"},
		{"IPv6 in brackets with a port", "[2001:db8::1]:8080", "2001:db8::1"},
		{"IPv6 whose last group looks like a port", "2001:db8::1:8080", "2001:db8::1:8080"},
		{"a zone", "fe80::1%eth0", "fe80::1"},
		{"a zone in brackets with a port", "[fe80::1%25eth0]:80", "fe80::1"},
		{"the unspecified address", "::", "::"},

		{"nothing", "", ""},
		{"blanks", " \t ", ""},
		{"a line break after", "1.2.3.4\n", ""},
		{"a zero byte after", "1.2.3.4\x00", ""},
		{"a no-break space before", "\u00a01.2.3.4", ""},
		{"unknown", "unknown", ""},
		{"hidden", "_gateway", ""},
		{"a host name", "localhost", ""},
		{"a host name with a port", "example.com:80", ""},
		{"two addresses", "1.2.3.4, 5.6.7.8", ""},
		{"two addresses with a blank", "1.2.3.4 5.6.7.8", ""},
		{"a network", "1.2.3.0/24", ""},
		{"three octets", "1.2.3", ""},
		{"five octets", "1.2.3.4.5", ""},
		{"an octet of 256", "1.2.3.256", ""},
		{"an octal octet", "01.2.3.4", ""},
		{"a hexadecimal octet", "0x1.2.3.4", ""},
		{"a number", "16909060", ""},
		{"full-width digits", "１.2.3.4", ""},
		{"IPv4 in brackets", "[1.2.3.4]", ""},
		{"IPv4 with a zone", "1.2.3.4%eth0", ""},
		{"an empty zone", "fe80::1%", ""},
		{"an empty port", "1.2.3.4:", ""},
		{"a port of six digits", "1.2.3.4:000080", ""},
		{"a port too high", "1.2.3.4:65536", ""},
		{"a port with a sign", "1.2.3.4:+80", ""},
		{"a port that is no number", "1.2.3.4:http", ""},
		{"a hidden port without a name", "1.2.3.4:_", ""},
		{"a hidden port with a blank", "1.2.3.4:_ p", ""},
		{"an open bracket", "[2001:db8::1", ""},
		{"a closing bracket only", "2001:db8::1]", ""},
		{"empty brackets", "[]", ""},
		{"two brackets", "[[2001:db8::1]]", ""},
		{"something after the bracket", "[2001:db8::1]80", ""},
		{"an empty port after the bracket", "[2001:db8::1]:", ""},
		{"a bracket alone", "[", ""},
		{"a colon alone", ":", ""},
		{"three colons", ":::", ""},
		{"IPv6 of nine groups", "1:2:3:4:5:6:7:8:9", ""},
		{"IPv6 of five digits", "2001:00db8::1", ""},
		{"quotes", `"1.2.3.4"`, ""},
		{"a zone too long", "fe80::1%" + strings.Repeat("a", 128), ""},
		{"a megabyte", strings.Repeat("1", 1<<20), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range []struct {
				keyfuncs.Strategy
				header string
			}{
				{keyfuncs.XRealIP(keyfuncs.Private), "X-Real-Ip"},
				{keyfuncs.HopCount(1), "X-Forwarded-For"},
				{keyfuncs.TrustedProxies(keyfuncs.Private), "X-Forwarded-For"},
			} {
				want := tt.want
				if tt.name == "two addresses" && s.header == "X-Forwarded-For" {
					want = "5.6.7.8" // a list there
				}
				wantAddr(t, s.Strategy, from("10.0.0.1", s.header, tt.value), want)
			}
			wantAddr(t, keyfuncs.Framework(), opinionated{&request{}, tt.value}, tt.want)
		})
	}
}

func TestKeysOfIPv4AreWrittenAsNetipDoes(t *testing.T) {
	t.Parallel()
	for b := range 256 {
		for place := range 4 {
			ip := [4]byte{192, 0, 2, 7}
			ip[place] = byte(b)
			want := netip.AddrFrom4(ip).String()
			got, _ := keyfuncs.ClientIP().Key(&request{peer: want})
			check.Equal(t, "key", got, "ip:"+want)
		}
	}
}
