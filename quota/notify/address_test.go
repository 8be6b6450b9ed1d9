package notify

import (
	"net/netip"
	"testing"
)

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1.1.1.1", "93.184.216.34", "172.15.0.1", "172.32.0.1", "100.63.255.255", "2606:4700::1111", "::ffff:1.1.1.1", "2a00:1450::1", "2000::1", "2001:200::1", "2003::1", "3fff:1000::1", "2620:4f:8001::1"} {
		if !isPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s is public", text)
		}
	}
	for _, text := range []string{
		"127.0.0.1", "127.1.2.3", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.8",
		"192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "fe80::1", "fe80::1%eth0", "2606:4700::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1",
		"64:ff9b::7f00:1", "64:ff9b:1::1", "64:ff9b:2::1", "2002:7f00:1::", "2001::1", "2001:db8::1", "100::1", "3fff::1", "5f00::1",
		"2001:2::1", "2001:3::1", "2001:10::1", "2001:20::1", "2001:30::1", "2001:1ff:ffff::1", "2620:4f:8000::1", "3fff:fff:ffff::1",
		// Of no kind yet, or of one that few lists have: a translation of IPv4, a dummy, and what nobody was given.
		"::ffff:0:7f00:1", "::1:0:0:1", "100:0:0:1::1", "200::1", "400::1", "1fff:ffff::1", "4000::1", "8000::1", "a000::1", "e000::1", "fe00::1",
	} {
		if isPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s is not public", text)
		}
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	check := guard([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")})
	for address, allowed := range map[string]bool{
		"1.1.1.1:443": true, "10.1.2.3:443": true, "[::ffff:10.1.2.3]:443": true, "10.2.0.1:443": false, "127.0.0.1:80": false, "[::1]:443": false,
		"example.com:443": false, "": false,
	} {
		if err := check(t.Context(), "tcp", address, nil); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
}
