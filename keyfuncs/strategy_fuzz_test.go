package keyfuncs_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/keyfuncs"
)

// addrOf is an address as proxies write it, read by netip instead. odd is set
// where netip takes more or less than we do: hidden and long ports, long zones.
func addrOf(s string) (addr netip.Addr, odd bool) {
	s = strings.Trim(s, " \t")
	odd = len(s) > 128 || strings.Contains(s, ":_")
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap().WithZone(""), odd
	}
	if addrPort, err := netip.ParseAddrPort(s); err == nil {
		port := s[strings.LastIndexByte(s, ':')+1:]
		return addrPort.Addr().Unmap().WithZone(""), odd || len(port) > 5
	}
	if host, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(host, "]") {
		if addr, err := netip.ParseAddr(strings.TrimSuffix(host, "]")); err == nil && addr.Is6() {
			return addr.Unmap().WithZone(""), odd
		}
	}
	return netip.Addr{}, odd
}

func FuzzAddresses(f *testing.F) {
	for _, s := range []string{
		"", "1.2.3.4", "1.2.3.4:80", "::ffff:1.2.3.4", "[::ffff:1.2.3.4]:80", "2001:DB8::1", "[fe80::1%eth0]:1", "64:ff9b::1.2.3.4",
		"1.2.3.4%eth0", "[1.2.3.4]", "01.2.3.4", "1.2.3.4:_p", "1.2.3.4, 5.6.7.8", "[]", "%", "[%]:", "::%", "::%%", "unknown",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := keyfuncs.XRealIP("10.0.0.0/8").Addr(from("10.0.0.1", "X-Real-Ip", s))
		if want, odd := addrOf(s); !odd && (got != want || ok != want.IsValid()) {
			t.Fatalf("%q: %v, %t; want %v", s, got, ok, want)
		}
		if ok != got.IsValid() || got.Is4In6() || got.Zone() != "" {
			t.Fatalf("%q: %v, %t", s, got, ok)
		}
		key, keyed := keyfuncs.ClientIP(keyfuncs.Framework()).Key(opinionated{&request{}, s})
		if (keyed == keyfuncs.Present) != ok {
			t.Fatalf("%q has key %q, %v", s, key, keyed)
		}
		if !ok {
			return
		}
		wantStorable(t, key)
		// All notations of the same bits have the same key.
		for _, notation := range []string{got.String(), got.StringExpanded(), "[" + netip.AddrFrom16(got.As16()).String() + "]:1"} {
			same, _ := keyfuncs.ClientIP(keyfuncs.HopCount(1)).Key(from("", xff, notation))
			if same != key {
				t.Fatalf("%q has key %q, %q has %q", s, key, notation, same)
			}
		}
	})
}

// The whole chain against a model that splits all of it.
func FuzzTrustedProxies(f *testing.F) {
	f.Add("192.0.2.7, 10.0.0.2", "10.0.0.3")
	f.Add("garbage,, 10.0.0.1", "")
	f.Add("[::1]:80, 1.2.3.4:80", "\x00")
	f.Add(strings.Repeat("10.0.0.2,", 20), strings.Repeat("10.0.0.2,", 20)+"10.0.0.2")
	s := keyfuncs.TrustedProxies("10.0.0.0/8")
	f.Fuzz(func(t *testing.T, line1, line2 string) {
		entries := strings.Split(line1+","+line2, ",")
		want := netip.MustParseAddr("10.0.0.1")
		for i := len(entries) - 1; i >= 0 && want.IsValid() && netip.MustParsePrefix("10.0.0.0/8").Contains(want); i-- {
			addr, odd := addrOf(entries[i])
			if odd {
				return
			}
			if want = addr; len(entries)-i > 32 {
				want = netip.Addr{}
			}
		}
		for _, r := range []*request{from("10.0.0.1", xff, line1, line2), from("10.0.0.1", xff, line1+","+line2)} {
			if got, ok := s.Addr(r); got != want || ok != want.IsValid() {
				t.Fatalf("%q: %v, %t; want %v", r.headers[xff], got, ok, want)
			}
		}
	})
}

// Whatever a client sends, what the proxies append to it decides alone.
func FuzzTrap35ClientsChooseNothing(f *testing.F) {
	f.Add("198.51.100.1", "text", uint8(2))
	f.Add(`for="198.51.100.1`, `a,b;for="10.0.0.1\`, uint8(1))
	f.Add(`for=198.51.100.1;x="\`, `"`, uint8(0))
	f.Add("10.0.0.1, 10.0.0.1", ",", uint8(31))
	f.Add(`"""`, `\\\"`, uint8(3))
	proxies, hops, forwarded := keyfuncs.TrustedProxies("10.0.0.0/8"), keyfuncs.HopCount(2), keyfuncs.Forwarded("10.0.0.0/8")
	quoter := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	f.Fuzz(func(t *testing.T, sent, text string, layout uint8) {
		want := netip.MustParseAddr("192.0.2.7")
		check := func(s keyfuncs.Strategy, header, client, proxy string) {
			t.Helper()
			for _, lines := range [][]string{
				{sent + ", " + client + "," + proxy},
				{sent, client + " ,\t" + proxy},
				{sent + "," + client, proxy},
				append(strings.Split(sent, ","), client, proxy),
			} {
				if addr, ok := s.Addr(from("10.0.0.1", header, lines...)); !ok || addr != want {
					t.Fatalf("%q: %v, %t", lines, addr, ok)
				}
			}
		}
		check(proxies, xff, "192.0.2.7", "10.0.0.2")
		check(hops, xff, "192.0.2.7", "198.51.100.9")

		// A proxy may copy into other parameters what the client chose.
		ext := `ext="` + quoter.Replace(text) + `"`
		client, proxy := `for="192.0.2.7:80"`, "for=10.0.0.2"
		if layout&1 != 0 {
			client += ";" + ext
		}
		if layout&2 != 0 {
			client = ext + "; " + client
		}
		if layout&4 != 0 {
			proxy += ";" + ext
		}
		if layout&8 != 0 {
			proxy = ext + ";" + proxy + ";proto=https"
		}
		check(forwarded, "Forwarded", client, proxy)
		check(forwarded, "Forwarded", "FOR=192.0.2.7", proxy)

		// Past the proxies nothing is read.
		for _, header := range addressHeaders {
			for name, s := range closed {
				if addr, ok := s.Addr(from("203.0.113.9", header, sent, text)); !ok || addr.String() != "203.0.113.9" {
					t.Fatalf("%s: %q: %v, %t", name, sent, addr, ok)
				}
			}
		}
	})
}
