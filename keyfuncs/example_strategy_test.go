package keyfuncs_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weblimit/weblimit/keyfuncs"
)

func ExampleClientIP_behindProxies() {
	key := keyfuncs.ClientIP(keyfuncs.TrustedProxies(keyfuncs.Loopback, "10.0.0.0/8"), keyfuncs.IPv6Prefix(56))

	fmt.Println(key.Key(&request{peer: "10.0.0.1", headers: http.Header{"X-Forwarded-For": {"192.0.2.7"}}}))
	fmt.Println(key.Key(&request{peer: "10.0.0.1", headers: http.Header{"X-Forwarded-For": {"2001:db8:1:2ff::1"}}}))
	fmt.Println(key.Key(&request{peer: "10.0.0.1", headers: http.Header{"X-Forwarded-For": {"unknown"}}}))
	fmt.Println(keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/40")).Err())
	// Output:
	// ip:192.0.2.7 present
	// ip:2001:db8:1:200::/56 present
	//  missing
	// weblimit: keyfuncs.TrustedProxies: "10.0.0.0/40" is not a CIDR, want one such as "192.0.2.0/24"
}

func ExampleIPv6Prefix() {
	home := keyfuncs.ClientIP(keyfuncs.IPv6Prefix(56))

	fmt.Println(home.Key(&request{peer: "2001:db8:0:ab01::1"}))
	fmt.Println(home.Key(&request{peer: "2001:db8:0:abff::1"}))
	fmt.Println(home.Key(&request{peer: "192.0.2.7"}))
	// Output:
	// ip:2001:db8:0:ab00::/56 present
	// ip:2001:db8:0:ab00::/56 present
	// ip:192.0.2.7 present
}

func ExampleStrategy_Addr() {
	client := keyfuncs.TrustedProxies(keyfuncs.Private)

	addr, ok := client.Addr(&request{peer: "10.0.0.1", headers: http.Header{"X-Forwarded-For": {"192.0.2.7"}}})
	fmt.Println(addr, ok)
	// Output: 192.0.2.7 true
}

func ExamplePeer() {
	fmt.Println(keyfuncs.Peer().Addr(&request{peer: "192.0.2.7", headers: http.Header{"X-Forwarded-For": {"198.51.100.1"}}}))
	// Output: 192.0.2.7 true
}

func ExampleTrustedProxies() {
	client := keyfuncs.TrustedProxies("10.0.0.0/8")
	forwarded := http.Header{"X-Forwarded-For": {"198.51.100.1, 192.0.2.7, 10.0.0.2"}} // the client made up the first

	fmt.Println(client.Addr(&request{peer: "10.0.0.1", headers: forwarded}))
	fmt.Println(client.Addr(&request{peer: "203.0.113.9", headers: forwarded})) // came past the proxies
	// Output:
	// 192.0.2.7 true
	// 203.0.113.9 true
}

func ExampleHopCount() {
	client := keyfuncs.HopCount(2) // a CDN and a load balancer

	fmt.Println(client.Addr(&request{headers: http.Header{"X-Forwarded-For": {"198.51.100.1, 192.0.2.7, 203.0.113.9"}}}))
	fmt.Println(client.Addr(&request{headers: http.Header{"X-Forwarded-For": {"203.0.113.9"}}}))
	// Output:
	// 192.0.2.7 true
	// invalid IP false
}

func ExampleXRealIP() {
	client := keyfuncs.XRealIP(keyfuncs.Loopback)

	fmt.Println(client.Addr(&request{peer: "127.0.0.1", headers: http.Header{"X-Real-Ip": {"192.0.2.7"}}}))
	// Output: 192.0.2.7 true
}

func ExampleSingleHeader() {
	client := keyfuncs.SingleHeader("True-Client-IP", "198.51.100.0/24")

	fmt.Println(client.Addr(&request{peer: "198.51.100.1", headers: http.Header{"True-Client-Ip": {"192.0.2.7"}}}))
	// Output: 192.0.2.7 true
}

func ExampleForwarded() {
	client := keyfuncs.Forwarded("10.0.0.0/8")

	fmt.Println(client.Addr(&request{peer: "10.0.0.1", headers: http.Header{
		"Forwarded": {`for="[2001:db8::7]:4711";proto=https`, "for=10.0.0.2"},
	}}))
	// Output: 2001:db8::7 true
}

func ExampleCloudflare() {
	client := keyfuncs.Cloudflare()
	visitor := http.Header{"Cf-Connecting-Ip": {"192.0.2.7"}}

	fmt.Println(client.Addr(&request{peer: "104.16.0.1", headers: visitor}))
	fmt.Println(client.Addr(&request{peer: "203.0.113.9", headers: visitor})) // not Cloudflare
	// Output:
	// 192.0.2.7 true
	// 203.0.113.9 true
}

func ExampleSetCloudflareRanges() {
	published := "104.16.0.0/13\n2606:4700::/32\n" // and the others, fetched once a day

	fmt.Println(keyfuncs.SetCloudflareRanges(strings.Fields(published)...))
	fmt.Println(keyfuncs.SetCloudflareRanges("<html>")) // changes nothing
	// Output:
	// <nil>
	// weblimit: keyfuncs.SetCloudflareRanges: "<html>" is not a CIDR, want one such as "192.0.2.0/24"
}

func ExampleFramework() {
	client := keyfuncs.Framework()

	fmt.Println(client.Addr(opinionated{&request{}, "::ffff:192.0.2.7"}))
	// Output: 192.0.2.7 true
}

func ExampleCustomAddr() {
	client := keyfuncs.CustomAddr(func(r keyfuncs.Request) (netip.Addr, bool) {
		addr, ok := r.Value("clientAddr").(netip.Addr) // which a middleware has found
		return addr, ok
	})

	fmt.Println(client.Addr(&request{values: map[any]any{"clientAddr": netip.MustParseAddr("192.0.2.7")}}))
	// Output: 192.0.2.7 true
}

func ExampleLookup() {
	asn := func(addr netip.Addr) (string, bool) { // ask your database
		return "64496", netip.MustParsePrefix("192.0.2.0/24").Contains(addr)
	}
	key := keyfuncs.Lookup("asn", asn, keyfuncs.TrustedProxies("10.0.0.0/8"))

	fmt.Println(key.Key(&request{peer: "10.0.0.1", headers: http.Header{"X-Forwarded-For": {"192.0.2.7"}}}))
	fmt.Println(key.Key(&request{peer: "203.0.113.9"}))
	// Output:
	// asn:64496 present
	//  missing
}

func ExampleTenant() {
	key := keyfuncs.Join(keyfuncs.Tenant("tenantID"), keyfuncs.Route())

	fmt.Println(key.Key(&request{route: "/orders", values: map[any]any{"tenantID": 42}}))
	// Output: tenant:42|route:/orders present
}

func ExampleFunc_WithSecret() {
	secret := []byte("take 32 random bytes instead")
	key := keyfuncs.APIKey("X-API-Key").WithSecret(secret)
	address := keyfuncs.ClientIP().WithSecret(secret)

	fmt.Println(key.Key(&request{headers: http.Header{"X-Api-Key": {"1234"}}}))
	fmt.Println(address.Key(&request{peer: "192.0.2.7"}))
	// Output:
	// apikey#SlAL8WoksdW5oVnTNIxzcA present
	// ip#-qLJVXtx4QbjI3XDj9eDRQ present
}
