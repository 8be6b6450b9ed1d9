package adversary

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// caller is a request whose key the oracle determines.
type caller struct {
	*message
	dialect *Dialect
	peer    netip.Addr
	visit   *Visit // as the framework routed it
}

// who is the oracle's answer: a key, or the reason why there is none.
type who struct {
	key       string
	ambiguous bool // the request could be taken for that of different callers
	unknown   bool // the oracle can't tell the route; no handler ran
}

// missing is the key of requests without a key that share a bucket.
const missing = "missing\x00"

// keyed returns the key of a value, or none for an empty one.
func keyed(kind, value string, secret bool) who {
	if value == "" {
		return who{}
	}
	if !secret && len(value) <= 64 && !strings.ContainsFunc(value, func(c rune) bool {
		return c < ' ' || c > '~' || strings.ContainsRune("{}|", c)
	}) {
		return who{key: kind + ":" + value}
	}
	sum := sha256.Sum256([]byte(value))
	return who{key: kind + "#" + base64.RawURLEncoding.EncodeToString(sum[:16])}
}

// lines returns the values of a field in the header block. For applications that read trailers
// like headers, the answer is doubtful if only a trailer has that name. It is also doubtful if the
// framework has changed one of several lines, by joining it with those that continue it: nobody
// can tell then which of them are trailers.
func (c *caller) lines(name string) []string {
	lines := c.message.lines(name)
	named := func(f field) bool { return equalFoldASCII(f.name, name) }
	if !c.dialect.mergesTrailers {
		return lines
	}
	trailer := slices.ContainsFunc(c.trailers, named)
	joined := slices.ContainsFunc(c.fields, func(f field) bool { return named(f) && f.begins != f.value })
	if len(lines) == 0 && trailer || joined && (trailer || len(lines) > 1) {
		return []string{"", "?"}
	}
	return lines
}

// onlyLine returns the value of a field that may have at most one line, without blanks of
// any sort around it.
func (c *caller) onlyLine(name string) (value string, ambiguous bool) {
	lines := c.lines(name)
	if len(lines) > 1 {
		return "", true
	}
	return strings.TrimSpace(firstOf(lines)), false
}

func byHeader(name string) func(*caller) who {
	return func(c *caller) who {
		value, ambiguous := c.onlyLine(name)
		if ambiguous {
			return who{ambiguous: true}
		}
		return keyed("header."+strings.ToLower(name), value, false)
	}
}

// byCookie accepts a cookie twice if both values are the same.
func byCookie(name string) func(*caller) who {
	return func(c *caller) who {
		values := c.dialect.cookies(c.message, name)
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
			if values[i] != values[0] {
				return who{ambiguous: true}
			}
		}
		if len(values) == 0 {
			return who{}
		}
		return keyed("cookie."+name, values[0], true)
	}
}

// byAPIKey accepts at most one credential per source, and the same one in all sources.
func byAPIKey(sources ...string) func(*caller) who {
	return func(c *caller) who {
		credential := ""
		for _, source := range sources {
			var value string
			var ambiguous bool
			if query, ok := strings.CutPrefix(source, "?"); ok {
				values := c.dialect.query(c.message, query)
				if ambiguous = len(values) > 1; len(values) == 1 {
					value = strings.TrimSpace(values[0])
				}
			} else if value, ambiguous = c.onlyLine(source); source == "Authorization" && !ambiguous {
				value, ambiguous = bearer(value)
			}
			if ambiguous || value != "" && credential != "" && value != credential {
				return who{ambiguous: true}
			}
			if value != "" {
				credential = value
			}
		}
		return keyed("apikey", credential, true)
	}
}

// bearer returns the token of an Authorization value (RFC 6750), "" for other schemes. A
// token has no blanks, or code that splits at blanks would read the first of several.
func bearer(value string) (token string, ambiguous bool) {
	const scheme = "bearer"
	if len(value) < len(scheme) || !equalFoldASCII(value[:len(scheme)], scheme) {
		return "", false
	}
	rest := value[len(scheme):]
	if token = strings.TrimSpace(rest); token == rest {
		return "", false
	}
	return token, len(strings.Fields(token)) > 1
}

func byUser(c *caller) who {
	user, _ := SignedIn(c.target)
	return keyed("user", user, false)
}

func byMethod(c *caller) who {
	switch c.method {
	case http.MethodHead:
		return who{key: "method:GET"}
	case "GET", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE":
		return who{key: "method:" + c.method}
	}
	return who{key: "method:other"}
}

func byEveryone(*caller) who { return who{key: "all"} }

// byRoute uses the route of the handler that ran. If none ran, it uses the path if that is
// plain.
func byRoute(c *caller) who {
	route, known := c.route()
	if !known {
		return who{unknown: true}
	}
	if route == routeNone {
		return who{key: "route:unmatched"}
	}
	return keyed("route", c.template(route), false)
}

// template returns a route as the framework writes it.
func (c *caller) template(route string) string {
	switch c.dialect.framework {
	case "gin", "echo", "fiber":
		return Colons.Replace(route)
	}
	return route
}

// route returns the route of the request, if that is known.
func (c *caller) route() (route string, known bool) {
	if c.visit.ran > 0 {
		return c.visit.route, true
	}
	path, _, _ := strings.Cut(c.target, "?")
	if byMethod(c).key == "method:other" || c.dialect.framework == "fiber" && losesTarget(c.message) || !plainPath.MatchString(path) {
		return "", false
	}
	for _, route := range Routes {
		pattern := strings.Split(route, "/")
		parts := strings.Split(path, "/")
		if slices.EqualFunc(pattern, parts, func(pattern, part string) bool {
			return pattern == part || strings.HasPrefix(pattern, "{") && part != ""
		}) {
			return route, true
		}
	}
	// With Echo, the first routed request shows whether a limiter is in Use or in Pre. Until
	// then a request without a route counts as one whose route is unknown.
	return routeNone, path == "/nowhere" && c.dialect.framework != "echo"
}

// plainPath matches paths that every router reads in the same way.
var plainPath = regexp.MustCompile(`^(/[a-z0-9]+)+$`)

// first returns the first known key. An ambiguous one ends the search.
func first(identities ...func(*caller) who) func(*caller) who {
	return func(c *caller) who {
		for _, identity := range identities {
			if w := identity(c); w != (who{}) {
				return w
			}
		}
		return who{}
	}
}

// join joins all keys. Even if one is missing, another may be ambiguous.
func join(identities ...func(*caller) who) func(*caller) who {
	return func(c *caller) who {
		var keys []string
		var all who
		for _, identity := range identities {
			w := identity(c)
			all.ambiguous = all.ambiguous || w.ambiguous
			all.unknown = all.unknown || w.unknown
			if w.key != "" {
				keys = append(keys, w.key)
			}
		}
		if len(keys) == len(identities) && !all.ambiguous && !all.unknown {
			all.key = strings.Join(keys, "|")
		}
		return all
	}
}

// The networks of the proxies in front of the application and of its clients.
var (
	proxies    = netip.MustParsePrefix("10.0.0.0/8")
	cloudflare = netip.MustParsePrefix("173.245.48.0/20")

	peers = []netip.Addr{
		netip.MustParseAddr("10.0.0.1"),     // a proxy
		netip.MustParseAddr("10.0.0.1"),     // a proxy
		netip.MustParseAddr("173.245.48.5"), // Cloudflare
		netip.MustParseAddr("192.0.2.99"),   // a client that has come past them
		netip.MustParseAddr("2001:db8:5::9"),
	}
)

// byAddr returns the key of the address that find returns.
func byAddr(find func(*caller) (netip.Addr, bool)) func(*caller) who {
	return func(c *caller) who {
		addr, ok := find(c)
		if !ok {
			return who{}
		}
		if addr.Is4() {
			return who{key: "ip:" + addr.String()}
		}
		return who{key: "ip:" + netip.PrefixFrom(addr, 64).Masked().String()}
	}
}

func peerAddr(c *caller) (netip.Addr, bool) { return c.peer, true }

// from uses find for a peer in the network, and the peer's address for others.
func from(network netip.Prefix, find func(*caller) (netip.Addr, bool)) func(*caller) (netip.Addr, bool) {
	return func(c *caller) (netip.Addr, bool) {
		if !network.Contains(c.peer) {
			return c.peer, true
		}
		return find(c)
	}
}

// lastLine returns the address in the last line of a field, which the nearest hop wrote.
func lastLine(name string) func(*caller) (netip.Addr, bool) {
	return func(c *caller) (netip.Addr, bool) {
		lines := c.lines(name)
		if len(lines) == 0 {
			return netip.Addr{}, false
		}
		return address(lines[len(lines)-1])
	}
}

// trusted returns the rightmost of the hops that is not a proxy, or the peer if there are
// no hops.
func trusted(hops func(*caller) []string) func(*caller) (netip.Addr, bool) {
	return func(c *caller) (addr netip.Addr, ok bool) {
		addr = c.peer
		chain := hops(c)
		if len(chain) > 33 {
			chain = chain[len(chain)-33:]
		}
		for i := range chain {
			if i == 32 { // too many hops
				return netip.Addr{}, false
			}
			if addr, ok = address(chain[len(chain)-1-i]); !ok {
				return netip.Addr{}, false
			}
			if !proxies.Contains(addr) {
				break
			}
		}
		return addr, true
	}
}

// hopCount returns the n-th address from the right.
func hopCount(n int) func(*caller) (netip.Addr, bool) {
	return func(c *caller) (addr netip.Addr, ok bool) {
		chain := forwardedFor(c)
		if len(chain) < n {
			return netip.Addr{}, false
		}
		for i := range n {
			if addr, ok = address(chain[len(chain)-1-i]); !ok {
				return netip.Addr{}, false
			}
		}
		return addr, true
	}
}

// forwardedFor returns the entries of X-Forwarded-For, over all lines.
func forwardedFor(c *caller) []string {
	lines := c.lines("X-Forwarded-For")
	if len(lines) == 0 {
		return nil
	}
	return strings.Split(strings.Join(lines, ","), ",")
}

// lastPair matches the last pair of a Forwarded line and its separator. Matching from the
// right begins with what the proxies wrote.
var lastPair = regexp.MustCompile(`(?s)(^|[,;])[ \t]*([!#$%&'*+.^_` + "`" + `|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^"=,;]*))[ \t]*$`)

// forwarded returns the for= of each element of Forwarded, over all lines. A malformed
// element counts as a malformed address.
func forwarded(c *caller) (hops []string) {
	for _, line := range slices.Backward(c.lines("Forwarded")) {
		seen, hop, more := false, "", true
		for more {
			at := lastPair.FindStringSubmatchIndex(line)
			if at == nil {
				hops = append(hops, "unreadable")
				break
			}
			group := func(i int) string {
				if at[2*i] < 0 {
					return ""
				}
				return line[at[2*i]:at[2*i+1]]
			}
			before := group(1)
			if strings.EqualFold(group(2), "for") {
				if hop = group(3) + group(4); seen {
					hop = "two of them"
				}
				seen = true
			}
			line = line[:at[0]]
			if before != ";" {
				hops = append(hops, hop)
				seen, hop = false, ""
			}
			more = before != ""
		}
	}
	slices.Reverse(hops)
	return hops
}

func cloudflareAddr(c *caller) (netip.Addr, bool) {
	addr, ok := lastLine("CF-Connecting-IP")(c)
	if ok && netip.MustParsePrefix("240.0.0.0/4").Contains(addr) { // Cloudflare's pseudo IPv4 for a client with IPv6
		addr, ok = lastLine("CF-Connecting-IPv6")(c)
		return addr, ok && addr.Is6()
	}
	return addr, ok
}

var (
	withPort  = regexp.MustCompile(`^([0-9.]+)(?::([^:]*))?$`)
	bracketed = regexp.MustCompile(`(?s)^\[([^\]%]*)(?:%([^\]]*))?\](?::(.*))?$`)
	bare      = regexp.MustCompile(`(?s)^([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)(?:%(.*))?$`)
)

// address reads an address as proxies write it.
func address(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	if len(s) > 128 {
		return netip.Addr{}, false
	}
	host, port, zone, six := "", "0", "x", true
	if m := withPort.FindStringSubmatch(s); m != nil {
		host, six = m[1], false
		if strings.Contains(s, ":") {
			port = m[2]
		}
	} else if m := bracketed.FindStringSubmatch(s); m != nil {
		host = m[1]
		if strings.Contains(s, "%") {
			zone = m[2]
		}
		if strings.Contains(s, "]:") {
			port = m[3]
		}
	} else if m := bare.FindStringSubmatch(s); m != nil {
		host = m[1]
		if strings.Contains(s, "%") {
			zone = m[2]
		}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Is6() != six || zone == "" {
		return netip.Addr{}, false
	}
	if hidden, ok := strings.CutPrefix(port, "_"); ok {
		if !isToken(hidden) {
			return netip.Addr{}, false
		}
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil || len(port) > 5 {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}
