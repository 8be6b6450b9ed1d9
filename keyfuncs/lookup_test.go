package keyfuncs_test

import (
	"net/netip"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// countryOf is an app's database.
func countryOf(addr netip.Addr) (string, bool) {
	country, ok := map[string]string{"192.0.2.7": "CH", "2001:db8::7": "FR", "198.51.100.1": ""}[addr.String()]
	return country, ok
}

func TestLookup(t *testing.T) {
	t.Parallel()
	byPeer := keyfuncs.Lookup("country", countryOf)
	wantKey(t, byPeer, &request{peer: "192.0.2.7"}, "country:CH")
	wantKey(t, byPeer, &request{peer: "::ffff:192.0.2.7"}, "country:CH")
	wantKey(t, byPeer, &request{peer: "2001:db8::7%eth0"}, "country:FR")
	wantKey(t, byPeer, &request{peer: "198.51.100.1"}, "")
	wantKey(t, byPeer, &request{peer: "203.0.113.9"}, "")
	wantKey(t, byPeer, &request{}, "")
	check.Equal(t, "Kind", byPeer.Kind(), "country")

	byClient := keyfuncs.Lookup("country", countryOf, keyfuncs.TrustedProxies(keyfuncs.Private))
	wantKey(t, byClient, from("10.0.0.1", xff, "192.0.2.7"), "country:CH")
	wantKey(t, byClient, from("10.0.0.1", xff, "garbage"), "")
	wantKey(t, byClient, from("2001:db8::7", xff, "192.0.2.7"), "country:FR")

	odd := keyfuncs.Lookup("asn", func(netip.Addr) (string, bool) { return "{64496}", true })
	wantKey(t, odd, &request{peer: "192.0.2.7"}, hashed("asn", "{64496}"))
}

func TestLookupIsChecked(t *testing.T) {
	t.Parallel()
	wantErr(t, keyfuncs.Lookup("ASN", countryOf), `weblimit: keyfuncs.Lookup: "ASN" is not a kind, want [a-z][a-z0-9.-]{0,31}`)
	wantErr(t, keyfuncs.Lookup("ip", countryOf), `weblimit: keyfuncs.Lookup: kind "ip" is taken`)
	wantErr(t, keyfuncs.Lookup("asn", nil), `weblimit: keyfuncs.Lookup: kind "asn" has no function`)
	wantErr(t, keyfuncs.Lookup("asn", countryOf, keyfuncs.Peer(), keyfuncs.Peer()), "weblimit: keyfuncs.Lookup: 2 strategies, want one")
}

func TestTenant(t *testing.T) {
	t.Parallel()
	r := &request{values: map[any]any{"tenant": "acme", "number": 42, "negative": int8(-1), "nil": nil}}
	wantKey(t, keyfuncs.Tenant("tenant"), r, "tenant:acme")
	wantKey(t, keyfuncs.Tenant("number"), r, "tenant:42")
	wantKey(t, keyfuncs.Tenant("negative"), r, "tenant:-1")
	wantKey(t, keyfuncs.Tenant("nil"), r, "")
	wantKey(t, keyfuncs.Tenant("other"), r, "")
	wantKey(t, keyfuncs.Join(keyfuncs.Tenant("tenant"), keyfuncs.User("number")), r, "tenant:acme|user:42")
	wantErr(t, keyfuncs.Tenant(nil), "weblimit: keyfuncs.Tenant: the context key is nil")
	wantErr(t, keyfuncs.Tenant([]int{}), "weblimit: keyfuncs.Tenant: a []int can't be a context key")
}
