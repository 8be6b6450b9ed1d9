package stdhttp

import (
	"net/netip"
	"strings"
)

// peer reads "192.0.2.7:80", "[2001:db8::1]:80", and the same without a port,
// which is what middleware sometimes leaves there. Anything else is no address,
// such as "@", the peer on a unix socket.
func peer(addr string) netip.Addr {
	if ip, ok := peer4(addr); ok {
		return ip
	}
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

// peer4 reads what nearly all servers find, IPv4 and a port, in a third of the
// time that netip needs. It reports false for all else and for what is no address.
func peer4(addr string) (ip netip.Addr, ok bool) {
	var bytes [4]byte
	rest := addr
	for i := range bytes {
		value, digits := 0, 0
		for digits < len(rest) && digits < 3 && isDigit(rest[digits]) {
			value = 10*value + int(rest[digits]-'0')
			digits++
		}
		end := byte('.')
		if i == len(bytes)-1 {
			end = ':'
		}
		leadingZero := digits > 1 && rest[0] == '0'
		if digits == 0 || leadingZero || value > 255 || digits == len(rest) || rest[digits] != end {
			return netip.Addr{}, false
		}
		bytes[i], rest = byte(value), rest[digits+1:]
	}
	if len(rest) == 0 || len(rest) > 5 {
		return netip.Addr{}, false
	}
	port := 0
	for i := range len(rest) {
		if !isDigit(rest[i]) {
			return netip.Addr{}, false
		}
		port = 10*port + int(rest[i]-'0')
	}
	return netip.AddrFrom4(bytes), port <= 65535
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
