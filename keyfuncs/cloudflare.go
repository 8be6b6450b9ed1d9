package keyfuncs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
)

// cloudflareRanges are the networks that the name CloudflareRanges stands for.
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

// pseudoIPv4 is class E, into which Cloudflare maps IPv6 clients if a zone's setting
// "Pseudo IPv4" overwrites headers.
var pseudoIPv4 = netip.MustParsePrefix("240.0.0.0/4")

// SetCloudflareRanges replaces the ranges that [Cloudflare] and [CloudflareRanges]
// trust, in the whole process. It may be called while the process serves. Give the
// complete list, IPv4 and IPv6, of https://www.cloudflare.com/ips/. Defaults to the
// list of 14 October 2026.
//
// It changes nothing and returns an error if a network is invalid, if there are none,
// and if they contain all of IPv4 or IPv6.
//
// # Security
//
// An old list fails safe: clients that come through a new range share the buckets of its
// machines.
func SetCloudflareRanges(cidrs ...string) error {
	parsed, err := parseNetworks(cidrs)
	switch {
	case err == nil && parsed.cloudflare:
		err = errors.New("\"cloudflare\" is the name of the list that is being set")
	case err == nil && parsed.spans.coverAll():
		err = errors.New("these networks contain every address")
	}
	if err != nil {
		return fmt.Errorf("weblimit: keyfuncs.SetCloudflareRanges: %w", err)
	}
	cloudflareRanges.Store(&parsed.spans)
	return nil
}

// Cloudflare reads CF-Connecting-IP if Cloudflare called. If Cloudflare has put a
// made-up IPv4 address there (setting "Pseudo IPv4: Overwrite Headers", addresses in
// 240.0.0.0/4), it reads CF-Connecting-IPv6.
//
// Cloudflare called if the TCP peer is in its ranges. If there are proxies of yours in
// between, give their networks, as in Cloudflare("10.0.0.0/8"): the caller of the
// outermost proxy is then found by X-Forwarded-For, as in [TrustedProxies]. Any other
// caller is the client, whatever its headers say.
//
// The address is unknown if Cloudflare sent no such header, or one that is not an
// address. Some of its settings remove visitors' addresses.
//
// Err reports what TrustedProxies reports, and CloudflareRanges as a proxy in between.
//
// # Security
//
// Safe for a site behind Cloudflare, directly or through the given proxies. If a proxy
// in between is not given, all clients share its bucket.
//
// Not safe against other customers of Cloudflare with the ranges alone: they can send
// requests from the same ranges to any origin whose address they know, through a zone
// with rules of their own. Turn on Authenticated Origin Pulls with a certificate of
// your own, so that only your zone's traffic is accepted. Or use a Tunnel, with
// SingleHeader("CF-Connecting-IP", Loopback) if it ends on the same machine.
//
// Before going live, check that [Strategy.Addr] is your own address, over IPv4 and over
// IPv6, also if you send CF-Connecting-IP yourself. Keep the ranges current with
// [SetCloudflareRanges].
func Cloudflare(between ...string) Strategy {
	caller, inBetween := peerAddr, hopBy(networks{}, "Cf-Connecting-Ip")
	if len(between) > 0 {
		if slices.Contains(between, CloudflareRanges) {
			return Strategy{err: errors.New("weblimit: keyfuncs.Cloudflare: \"cloudflare\" is not one of your proxies in between")}
		}
		proxies := chainStrategy("Cloudflare", xForwardedFor, cutEntry, between)
		if proxies.err != nil {
			return proxies
		}
		caller, inBetween = proxies.addr, proxies.hop
	}
	return Strategy{name: "Cloudflare", hop: func(r Request) hop {
		if addr, ok := caller(r); ok && cloudflareRanges.Load().contains(addr) {
			return hop{header: "Cf-Connecting-Ip", addr: addr, listed: true}
		}
		return inBetween(r)
	}, addr: func(r Request) (netip.Addr, bool) {
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
