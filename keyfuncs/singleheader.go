package keyfuncs

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"slices"
)

// XRealIP reads X-Real-IP from proxies in the given networks. It is
// SingleHeader("X-Real-IP", cidrs...); see [SingleHeader] for its security note.
func XRealIP(cidrs ...string) Strategy {
	return headerStrategy("XRealIP", "X-Real-Ip", cidrs)
}

// SingleHeader reads a header that holds one address and is set by a proxy in the given
// networks:
//
//	SingleHeader("True-Client-IP", "198.51.100.0/24")
//
// If the TCP peer is not in the networks it is the client, and the header is not read.
// Of several lines the last counts, since the nearest proxy has written it.
//
// The address is unknown if the header is missing or holds anything but one address,
// and on a unix socket.
//
// Err reports a name that is not a header name, an invalid network, and no networks. It
// also reports X-Forwarded-For, Forwarded and other headers that hold a list: use
// [TrustedProxies] and [Forwarded], which find the right entry. "0.0.0.0/0" and "::/0"
// together are allowed, for a firewall that lets only the proxy in.
//
// # Security
//
// Safe if the proxy sets the header on every request and drops what the client sent, as
// nginx does with proxy_set_header X-Real-IP $remote_addr.
//
// Not safe if the proxy keeps a header that it finds, or sets one only sometimes.
// True-Client-IP, Fastly-Client-IP and X-Azure-ClientIP come from the client unless the
// CDN is configured to strip them. X_Real_IP is another header, and is never read as
// X-Real-IP.
//
// Before going live, send the header with 198.51.100.1 through the proxy and log
// [Strategy.Addr]. It must be your own address.
func SingleHeader(name string, cidrs ...string) Strategy {
	if problem := checkName("header", name); problem != "" {
		return Strategy{err: nameError("SingleHeader", name, problem)}
	}
	if folded := foldName(name); slices.Contains(listHeaders, folded) {
		return Strategy{err: fmt.Errorf("weblimit: keyfuncs.SingleHeader: %s holds a list, and clients can write its first entries; use keyfuncs.%s", name, addressHeaders[folded])}
	}
	return headerStrategy("SingleHeader", textproto.CanonicalMIMEHeaderKey(name), cidrs)
}

func headerStrategy(name, header string, cidrs []string) Strategy {
	trusted, err := parseNetworks(cidrs)
	if err != nil {
		return Strategy{err: fmt.Errorf("weblimit: keyfuncs.%s: %w", name, err)}
	}
	return Strategy{name: name, hop: hopBy(trusted, header), open: trusted.spans.coverAll(), addr: func(r Request) (netip.Addr, bool) {
		addr, ok := peerAddr(r)
		if !ok || !trusted.contains(addr) {
			return addr, ok
		}
		return headerAddr(r, header)
	}}
}

// headerAddr reads the last line of a header as one address.
func headerAddr(r Request, header string) (netip.Addr, bool) {
	n := countLines(r, header)
	if n == 0 {
		return netip.Addr{}, false
	}
	line, _ := r.Header(header, n-1)
	return parseAddr(line)
}
