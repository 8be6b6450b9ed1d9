package keyfuncs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
)

// cloudflareRanges is what CloudflareRanges stands for.
var cloudflareRanges atomic.Pointer[spans]

// The list of https://www.cloudflare.com/ips/ on 14 October 2026.
func init() {
	err := SetCloudflareRanges(
		"173.245.48.0/20", "103.21.244.0/22", "103.22.200.0/22", "103.31.4.0/22", "141.101.64.0/18",
		"108.162.192.0/18", "190.93.240.0/20", "188.114.96.0/20", "197.234.240.0/22", "198.41.128.0/17",
		"162.158.0.0/15", "104.16.0.0/13", "104.24.0.0/14", "172.64.0.0/13", "131.0.72.0/22",
		"2400:cb00::/32", "2606:4700::/32", "2803:f800::/32", "2405:b500::/32", "2405:8100::/32",
		"2a06:98c0::/29", "2c0f:f248::/32",
	)
	if err != nil {
		panic(err)
	}
}

// pseudoIPv4 is class E, into which Cloudflare maps IPv6 clients when a zone's
// "Pseudo IPv4" overwrites headers.
var pseudoIPv4 = netip.MustParsePrefix("240.0.0.0/4")

// SetCloudflareRanges replaces what [Cloudflare] and [CloudflareRanges] trust, in
// the whole process and while it serves. Give the whole list, IPv4 and IPv6, of
// https://www.cloudflare.com/ips/; the one that is built in is of 14 October
// 2026. An old list fails safe: clients that come through a new range share the
// buckets of its machines.
//
// It changes nothing and returns an error when a network is none, when there are
// none, and when they hold all of IPv4 or IPv6.
func SetCloudflareRanges(cidrs ...string) error {
	parsed, err := parseNetworks(cidrs)
	switch {
	case err == nil && parsed.cloudflare:
		err = errors.New("\"cloudflare\" is what is being set")
	case err == nil && parsed.spans.coverAll():
		err = errors.New("these networks hold every address")
	}
	if err != nil {
		return fmt.Errorf("weblimit: keyfuncs.SetCloudflareRanges: %w", err)
	}
	cloudflareRanges.Store(&parsed.spans)
	return nil
}

// Cloudflare reads CF-Connecting-IP when it is Cloudflare that called. Where
// Cloudflare puts a made-up IPv4 address in its place (the setting "Pseudo IPv4:
// Overwrite Headers", 240.0.0.0/4), the client is what CF-Connecting-IPv6 says.
//
// Cloudflare called when the TCP peer is in its ranges. Name the networks of your
// own proxies when there are some in between, as in Cloudflare("10.0.0.0/8"):
// then it is who called the outermost of them, by X-Forwarded-For as in
// [TrustedProxies]. Whoever else called is the client, whatever its headers say.
//
// The address is unknown when Cloudflare sent no such header or one that is not
// an address, as some of its settings that remove visitors' addresses do.
//
// Err reports the same as TrustedProxies does, and CloudflareRanges in between.
//
// # Security
//
// Safe for a site that Cloudflare proxies, on the way that was said. With a proxy
// in between that was not named, all clients share its bucket.
//
// Every customer of Cloudflare can send requests from the same ranges, to any
// origin whose address is known, through a zone with rules of their own. Turn on
// Authenticated Origin Pulls with a certificate of your own to be sure that it is
// your zone's traffic; the ranges alone keep out the rest of the world. Or use a
// Tunnel, with SingleHeader("CF-Connecting-IP", Loopback) where it ends on the
// same machine.
//
// Before going live, see that [Strategy.Addr] is your own address, over IPv4 and
// over IPv6, also when you send CF-Connecting-IP yourself. Keep the list of
// ranges current: see [SetCloudflareRanges].
func Cloudflare(between ...string) Strategy {
	caller := peerAddr
	if len(between) > 0 {
		if slices.Contains(between, CloudflareRanges) {
			return Strategy{err: errors.New("weblimit: keyfuncs.Cloudflare: \"cloudflare\" is not a proxy of yours in between")}
		}
		proxies := chainStrategy("Cloudflare", xForwardedFor, cutEntry, between)
		if proxies.err != nil {
			return proxies
		}
		caller = proxies.addr
	}
	return Strategy{name: "Cloudflare", addr: func(r Request) (netip.Addr, bool) {
		addr, ok := caller(r)
		if !ok || !cloudflareRanges.Load().contains(addr) {
			return addr, ok
		}
		addr, ok = headerAddr(r, "Cf-Connecting-Ip")
		if ok && pseudoIPv4.Contains(addr) {
			addr, ok = headerAddr(r, "Cf-Connecting-Ipv6")
			return addr, ok && addr.Is6()
		}
		return addr, ok
	}}
}
