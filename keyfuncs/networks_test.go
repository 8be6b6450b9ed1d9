package keyfuncs_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestNetworks(t *testing.T) {
	t.Parallel()
	in := func(peer string, cidrs ...string) bool {
		s := keyfuncs.XRealIP(cidrs...) // FromCIDR takes no networks that contain everything
		if err := s.Err(); err != nil {
			t.Fatalf("%q: %v", cidrs, err)
		}
		addr, ok := s.Addr(from(peer, "X-Real-Ip", "203.0.113.99"))
		trusted := ok && addr.String() == "203.0.113.99"
		if c := keyfuncs.FromCIDR(cidrs...); c.Err() == nil && c.Match(&request{peer: peer}) != trusted {
			t.Errorf("FromCIDR(%q) differs for %q", cidrs, peer)
		}
		return trusted
	}
	for _, tt := range []struct {
		cidrs      []string
		yes, never []string
	}{
		{[]string{"10.0.0.0/8"}, []string{"10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"}, []string{"9.255.255.255", "11.0.0.0", "::a00:1", ""}},
		{[]string{"192.0.2.7"}, []string{"192.0.2.7"}, []string{"192.0.2.6", "192.0.2.8"}},
		{[]string{"192.0.2.128/25"}, []string{"192.0.2.128", "192.0.2.255"}, []string{"192.0.2.127", "192.0.3.0"}},
		{[]string{"2001:db8::/33"}, []string{"2001:db8:7fff:ffff::1"}, []string{"2001:db8:8000::", "2001:db7::"}},
		{[]string{"::1"}, []string{"::1"}, []string{"::", "::2", "127.0.0.1"}},
		{[]string{"::ffff:192.0.2.0/120"}, []string{"192.0.2.9", "::ffff:192.0.2.9"}, []string{"192.0.3.0", "::c000:209"}},
		{[]string{"0.0.0.0/0"}, []string{"0.0.0.0", "255.255.255.255"}, []string{"::", "2001:db8::1"}},
		{[]string{"::/0"}, []string{"::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}, []string{"0.0.0.0", "::ffff:1.2.3.4"}},
		{[]string{"0.0.0.0/0", "::/0"}, []string{"1.2.3.4", "::1", "fe80::1%eth0"}, []string{""}},
		{[]string{"fe80::/10"}, []string{"fe80::1%eth0"}, []string{"fec0::"}},
		{[]string{keyfuncs.Loopback}, []string{"127.0.0.1", "127.255.0.1", "::1"}, []string{"10.0.0.1", "128.0.0.0"}},
		{
			[]string{keyfuncs.Private},
			[]string{"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "fc00::1", "fdff::1"},
			[]string{"127.0.0.1", "::1", "172.15.0.1", "172.32.0.1", "169.254.169.254", "100.64.0.1", "fe80::1", "fe00::1"},
		},
		{
			[]string{keyfuncs.CloudflareRanges},
			[]string{"104.16.0.1", "104.27.255.255", "131.0.75.255", "2606:4700::1", "2a06:98c7::1"},
			[]string{"104.28.0.0", "10.0.0.1", "2606:4701::1", "2a06:98c8::"},
		},
		{[]string{keyfuncs.CloudflareRanges, keyfuncs.Loopback, "192.0.2.7"}, []string{"104.16.0.1", "::1", "192.0.2.7"}, []string{"10.0.0.1"}},
	} {
		for _, peer := range tt.yes {
			if !in(peer, tt.cidrs...) {
				t.Errorf("%q is not in %q", peer, tt.cidrs)
			}
		}
		for _, peer := range tt.never {
			if in(peer, tt.cidrs...) {
				t.Errorf("%q is in %q", peer, tt.cidrs)
			}
		}
	}
}

func TestNetworksThatAreNone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("1", 100)
	for cidr, want := range map[string]string{
		"":                  `"" is not a CIDR, want one such as "192.0.2.0/24"`,
		"localhost":         `"localhost" is not a CIDR, want one such as "192.0.2.0/24"`,
		"Private":           `"Private" is not a CIDR, want one such as "192.0.2.0/24"`,
		"10.0.0.0/8\n":      `"10.0.0.0/8\n" is not a CIDR, want one such as "192.0.2.0/24"`,
		"10.0.0.0/":         `"10.0.0.0/" is not a CIDR, want one such as "192.0.2.0/24"`,
		"10.0.0.0/-1":       `"10.0.0.0/-1" is not a CIDR, want one such as "192.0.2.0/24"`,
		"10.0.0.0/08":       `"10.0.0.0/08" is not a CIDR, want one such as "192.0.2.0/24"`,
		"10.0.0.0/33":       `"10.0.0.0/33" is not a CIDR, want one such as "192.0.2.0/24"`,
		"10.0.0/8":          `"10.0.0/8" is not a CIDR, want one such as "192.0.2.0/24"`,
		"::/129":            `"::/129" is not a CIDR, want one such as "192.0.2.0/24"`,
		"fe80::1%eth0":      `"fe80::1%eth0" is not a CIDR, want one such as "192.0.2.0/24"`,
		"fe80::%eth0/10":    `"fe80::%eth0/10" is not a CIDR, want one such as "192.0.2.0/24"`,
		"10.0.0.1:80":       `"10.0.0.1:80" is not a CIDR, want one such as "192.0.2.0/24"`,
		"10.0.0.0-10.0.1.0": `"10.0.0.0-10.0.1.0" is not a CIDR, want one such as "192.0.2.0/24"`,
		long:                `"` + long[:60] + `" is not a CIDR, want one such as "192.0.2.0/24"`,
		"10.1.2.3/8":        `"10.1.2.3/8" is an address and not a network, want "10.0.0.0/8" or "10.1.2.3"`,
		"2001:db8::1/32":    `"2001:db8::1/32" is an address and not a network, want "2001:db8::/32" or "2001:db8::1"`,
	} {
		wantConditionErr(t, keyfuncs.FromCIDR("192.0.2.0/24", cidr), "weblimit: keyfuncs.FromCIDR: "+want)
	}
}

// Many networks at random, overlapping and touching, against netip itself.
func TestNetworksAgreeWithNetip(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	randomAddr := func() netip.Addr {
		if rng.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{byte(rng.IntN(4)), byte(rng.IntN(4)) << 6, 0, byte(rng.IntN(256))})
		}
		return netip.AddrFrom16([16]byte{0: byte(rng.IntN(4)), 1: byte(rng.IntN(4)) << 6, 15: byte(rng.IntN(256))})
	}
	for range 300 {
		var prefixes []netip.Prefix
		var cidrs []string
		for range 1 + rng.IntN(12) {
			addr := randomAddr()
			p := must.Get(addr.Prefix(1 + rng.IntN(addr.BitLen())))(t)
			prefixes, cidrs = append(prefixes, p), append(cidrs, p.String())
		}
		c := keyfuncs.FromCIDR(cidrs...)
		if c.Err() != nil {
			t.Fatal(c.Err())
		}
		for range 50 {
			addr, want := randomAddr(), false
			if rng.IntN(2) == 0 { // at an edge
				p := prefixes[rng.IntN(len(prefixes))]
				if addr = p.Addr(); rng.IntN(2) == 0 && addr.Prev().IsValid() {
					addr = addr.Prev()
				}
			}
			for _, p := range prefixes {
				want = want || p.Contains(addr)
			}
			if got := c.Match(&request{peer: addr.String()}); got != want && !addr.Is4In6() {
				t.Fatalf("%v in %v: %t, want %t", addr, cidrs, got, want)
			}
		}
	}
}

func TestNetworksKeepNoSliceOfTheCaller(t *testing.T) {
	t.Parallel()
	cidrs := []string{"192.0.2.0/24"}
	c := keyfuncs.FromCIDR(cidrs...)
	cidrs[0] = "10.0.0.0/8"
	check.All(t, "networks that have changed since they were read", []any{c.Match(&request{peer: "192.0.2.7"}), c.Match(&request{peer: "10.0.0.1"})}, true, false)
}

// Ten thousand networks are looked up as ten are.
func BenchmarkNetworks(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cidrs := make([]string, n)
			for i := range cidrs {
				cidrs[i] = fmt.Sprintf("10.%d.%d.%d/31", i>>14, i>>6&255, i<<2&255)
			}
			c, r := keyfuncs.FromCIDR(cidrs...), &request{peer: "10.0.9.1"}
			for b.Loop() {
				c.Match(r)
			}
		})
	}
}
