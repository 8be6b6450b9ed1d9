package keyfuncs

import "net/netip"

// ipv6Bits is how much of an IPv6 address names a client: a provider gives each
// customer a /64 or more, in which to choose a new address costs nothing.
const ipv6Bits = 64

// ClientIP limits each TCP peer by its address: IPv4 in full, IPv6 by its /64.
// It reads no header. The key is "ip:192.0.2.7" or "ip:2001:db8:0:1::/64".
//
// What counts are the bits and not how they are written: ::ffff:192.0.2.7 is
// IPv4, 2001:db8::192.0.2.7 is IPv6, and a zone is ignored. Addresses in
// 64:ff9b::/96, where a translator has put the IPv4 address of the client into
// an IPv6 one, are IPv6 like the rest and so share one bucket.
//
// A request without a peer address (a unix socket) has no key.
//
// # Security
//
// Safe wherever clients connect to the process directly: nothing a client sends
// changes its key, and a TCP peer can't be forged from elsewhere.
//
// Not useful behind a reverse proxy, load balancer or CDN: the peer is the
// proxy there, and all clients share its bucket. To see which it is, log the
// key of a few requests before going live: one address for all of them means a
// proxy.
func ClientIP() Func {
	return Func{kind: kindIP, read: func(dst []byte, r Request) ([]byte, bool) {
		addr := r.Peer()
		if !addr.IsValid() {
			return dst, false
		}
		return appendAddr(dst, addr), true
	}}
}

// appendAddr appends the key of an address, which must be valid.
func appendAddr(dst []byte, addr netip.Addr) []byte {
	dst = append(dst, kindIP...)
	dst = append(dst, ':')
	// Unmap before masking: the /64 of ::ffff:192.0.2.7 holds all of IPv4.
	addr = addr.Unmap()
	if addr.Is4() {
		return addr.AppendTo(dst)
	}
	// Prefix drops the zone. It fails only for bits out of range.
	prefix, _ := addr.Prefix(ipv6Bits)
	return prefix.AppendTo(dst)
}
