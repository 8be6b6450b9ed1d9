package keyfuncs_test

import (
	"net/netip"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestFromCIDR(t *testing.T) {
	t.Parallel()
	office := keyfuncs.FromCIDR("192.0.2.0/24", "2001:db8::/32")
	wantMatch(t, office, &request{peer: "192.0.2.7"}, true)
	wantMatch(t, office, &request{peer: "::ffff:192.0.2.7"}, true)
	wantMatch(t, office, &request{peer: "2001:db8::7%eth0"}, true)
	wantMatch(t, office, &request{peer: "198.51.100.1"}, false)
	wantMatch(t, office, &request{}, false)
	// No header gets anybody in.
	for _, header := range addressHeaders {
		wantMatch(t, office, from("198.51.100.1", header, "192.0.2.7"), false)
		wantMatch(t, office, from("192.0.2.7", header, "198.51.100.1"), true)
	}
}

func TestFromCIDRThroughProxies(t *testing.T) {
	t.Parallel()
	office := keyfuncs.TrustedProxies(keyfuncs.Private).FromCIDR("192.0.2.0/24")
	wantMatch(t, office, from("10.0.0.1", xff, "192.0.2.7"), true)
	wantMatch(t, office, from("10.0.0.1", xff, "192.0.2.7, 198.51.100.1"), false)
	wantMatch(t, office, from("10.0.0.1", xff, "198.51.100.1", "192.0.2.7"), true)
	wantMatch(t, office, from("10.0.0.1", xff, "192.0.2.7, garbage"), false)
	wantMatch(t, office, from("10.0.0.1", xff), false)
	wantMatch(t, office, from("198.51.100.1", xff, "192.0.2.7"), false)
	wantMatch(t, office, from("192.0.2.7", xff, "198.51.100.1"), true)

	for name, s := range closed {
		for _, header := range addressHeaders {
			for _, value := range []string{"192.0.2.7", "for=192.0.2.7"} {
				if s.FromCIDR("192.0.2.0/24").Match(from("203.0.113.9", header, value)) {
					t.Errorf("%s: %s: %s is believed", name, header, value)
				}
			}
		}
	}

	custom := keyfuncs.CustomAddr(func(keyfuncs.Request) (netip.Addr, bool) { return netip.MustParseAddr("::ffff:192.0.2.7"), true })
	wantMatch(t, custom.FromCIDR("192.0.2.0/24"), &request{}, true)
}

func TestFromCIDRTakesNoNetworksThatContainEverybody(t *testing.T) {
	t.Parallel()
	const want = ": these networks contain every address, so everybody would be exempt; name the networks, or use Matches if that is meant"
	for _, cidrs := range [][]string{{"0.0.0.0/0"}, {"::/0"}, {"192.0.2.0/24", "::/0"}, {"0.0.0.0/1", "128.0.0.0/1"}, {"::ffff:0.0.0.0/96"}} {
		wantConditionErr(t, keyfuncs.FromCIDR(cidrs...), "weblimit: keyfuncs.FromCIDR"+want)
		wantConditionErr(t, keyfuncs.TrustedProxies("10.0.0.0/8").FromCIDR(cidrs...), "weblimit: keyfuncs.Strategy.FromCIDR"+want)
		wantConditionErr(t, keyfuncs.Not(keyfuncs.FromCIDR(cidrs...)), "weblimit: keyfuncs.FromCIDR"+want)
	}
	wantMatch(t, keyfuncs.FromCIDR("0.0.0.0/1"), &request{peer: "10.0.0.1"}, true)
}

func TestFromCIDRTakesNoStrategyThatClientsChooseWith(t *testing.T) {
	t.Parallel()
	const want = " does not check the peer, so clients could choose their network"
	for name, s := range map[string]keyfuncs.Strategy{
		"HopCount":     keyfuncs.HopCount(1),
		"Framework":    keyfuncs.Framework(),
		"XRealIP":      keyfuncs.XRealIP("0.0.0.0/0"),
		"SingleHeader": keyfuncs.SingleHeader("X-Client-IP", "10.0.0.0/8", "::/0"),
	} {
		wantConditionErr(t, s.FromCIDR("192.0.2.0/24"), "weblimit: keyfuncs.Strategy.FromCIDR: "+name+want)
	}
	const none = `: no networks, say which, such as keyfuncs.Private or "192.0.2.0/24"`
	wantConditionErr(t, keyfuncs.FromCIDR(), "weblimit: keyfuncs.FromCIDR"+none)
	wantConditionErr(t, keyfuncs.Cloudflare().FromCIDR(), "weblimit: keyfuncs.Strategy.FromCIDR"+none)
}

func TestFromPeer(t *testing.T) {
	t.Parallel()
	local := keyfuncs.FromCIDR(keyfuncs.Loopback)
	office := keyfuncs.TrustedProxies("127.0.0.1").FromCIDR("127.0.0.0/8", "192.0.2.0/24")
	for _, tt := range []struct {
		name string
		c    keyfuncs.Condition
		want bool
	}{
		{"FromCIDR", local, true},
		{"that of the peer's strategy", keyfuncs.Peer().FromCIDR(keyfuncs.Loopback), true},
		{"in All", keyfuncs.All(local, keyfuncs.Methods("GET")), true},
		{"in Any and Not", keyfuncs.Not(keyfuncs.Any(keyfuncs.Methods("GET"), local)), true},
		{"other networks", keyfuncs.FromCIDR("10.0.0.0/8"), false},
		{"that of another strategy", office, false},
		{"another condition", keyfuncs.Methods("GET"), false},
	} {
		check.Equal(t, tt.name, tt.c.FromPeer(&request{peer: "::ffff:127.0.0.1"}), tt.want)
		if tt.c.FromPeer(&request{}) {
			t.Errorf("%s: it has a peer on a unix socket", tt.name)
		}
	}
}
