package keyfuncs

import (
	"net/netip"
	"strconv"
	"strings"
)

// ipv6Bits is the default of IPv6Prefix: a provider gives each customer a /64 or more,
// and a new address in it costs nothing.
const ipv6Bits = 64

// maxAddr bounds the texts that are parsed. The longest address with brackets, zone and
// port is shorter.
const maxAddr = 128

// parseAddr reads an address as proxies write it: bare, "ip:port", "[v6]" and
// "[v6]:port", with blanks around it. The result is normal (see the function normal).
func parseAddr(s string) (netip.Addr, bool) {
	s = trimBlanks(s)
	if s == "" || len(s) > maxAddr {
		return netip.Addr{}, false
	}
	host, port, want := s, "", 0 // want is how many bits an address in this form has; 0 for any
	if s[0] == '[' {
		var ok bool
		if host, port, ok = strings.Cut(s[1:], "]"); !ok {
			return netip.Addr{}, false
		}
		want = 128
	} else if i := strings.IndexByte(s, ':'); i >= 0 && i == strings.LastIndexByte(s, ':') {
		host, port, want = s[:i], s[i:], 32
	}
	addr, ok := parseHost(host)
	if !ok || want != 0 && addr.BitLen() != want || port != "" && !isPort(port) {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// parseHost reads a bare address. The zone is cut off before netip parses it: netip
// keeps each zone in a table of the process, which a client could fill.
func parseHost(s string) (netip.Addr, bool) {
	host, zone, zoned := strings.Cut(s, "%")
	addr, err := netip.ParseAddr(host)
	if err != nil || zoned && (zone == "" || !addr.Is6()) {
		return netip.Addr{}, false
	}
	return addr, true
}

// isPort reports whether s is ":" and a port, or an obfuscated port of RFC 7239,
// section 6.
func isPort(s string) bool {
	if s[0] != ':' {
		return false
	}
	s = s[1:]
	if hidden, ok := strings.CutPrefix(s, "_"); ok {
		return isToken(hidden)
	}
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil && len(s) <= 5
}

// trimBlanks removes spaces and tabs, which HTTP allows around a list element.
func trimBlanks(s string) string { return strings.Trim(s, " \t") }

// normal returns addr as it is compared and keyed. IPv4 mapped into IPv6 becomes IPv4,
// since the /64 of ::ffff:192.0.2.7 contains all of IPv4. The zone is dropped, since no
// prefix contains an address with a zone.
func normal(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// appendAddr appends the key of a valid address: all of IPv4, the first bits of IPv6.
func appendAddr(dst []byte, addr netip.Addr, bits int) []byte {
	dst = append(dst, kindIP+":"...)
	addr = addr.Unmap()
	if addr.Is4() {
		return append4(dst, addr.As4())
	}
	// Prefix drops the zone. It fails only for bits out of range.
	prefix, _ := addr.Prefix(bits)
	return prefix.AppendTo(dst)
}

// append4 is netip.Addr.AppendTo for IPv4, in half of its time.
func append4(dst []byte, ip [4]byte) []byte {
	for i, b := range ip {
		if i > 0 {
			dst = append(dst, '.')
		}
		if b >= 100 {
			dst = append(dst, '0'+b/100)
		}
		if b >= 10 {
			dst = append(dst, '0'+b/10%10)
		}
		dst = append(dst, '0'+b%10)
	}
	return dst
}
