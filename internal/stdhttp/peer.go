package stdhttp

import (
	"net/netip"
	"strings"
)

// peer reads "192.0.2.7:80", "[2001:db8::1]:80", and the same without a port,
// which is what middleware sometimes leaves there. Anything else is no address,
// such as "@", the peer on a unix socket.
func peer(addr string) netip.Addr {
	switch {
	case addr == "" || addr[0] == '@' || addr[0] == '/':
		return netip.Addr{} // an error of netip would allocate
	case addr[0] == '[':
		if inner, ok := strings.CutSuffix(addr[1:], "]"); ok {
			return only6(inner)
		}
	case strings.Count(addr, ":") != 1:
		ip, _ := netip.ParseAddr(addr) // the zero Addr on error
		return ip
	}
	ap, _ := netip.ParseAddrPort(addr)
	return ap.Addr()
}

// only6 parses what may stand in brackets.
func only6(s string) netip.Addr {
	ip, err := netip.ParseAddr(s)
	if err != nil || !ip.Is6() {
		return netip.Addr{}
	}
	return ip
}
