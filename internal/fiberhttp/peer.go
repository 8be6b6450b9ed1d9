package fiberhttp

import (
	"net"
	"net/netip"
)

// Peer returns the address of a connection's other end: the zero Addr for a unix socket.
func Peer(addr net.Addr) netip.Addr {
	var ip netip.Addr
	switch addr := addr.(type) {
	case *net.TCPAddr:
		ip = addr.AddrPort().Addr()
	case *net.UnixAddr:
	default: // a listener that wraps others, such as one for the PROXY protocol
		ap, _ := netip.ParseAddrPort(addr.String()) // the zero Addr on error
		ip = ap.Addr()
	}
	if ip.IsUnspecified() { // fasthttp's address of a connection without a peer
		return netip.Addr{}
	}
	return ip.Unmap()
}
