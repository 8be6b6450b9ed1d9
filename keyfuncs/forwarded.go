package keyfuncs

import "strings"

// Forwarded reads the Forwarded header of RFC 7239 like [TrustedProxies] reads
// X-Forwarded-For: the for= of each element from the right, over all lines. The first
// one that is not in the given networks is the client.
//
// The address is unknown if an element on the way has no for=, two of them, "unknown",
// an obfuscated one ("_gateway") or anything else that is not an address. Quoted commas
// and semicolons separate nothing. A quote that a client leaves open does not reach
// into what a proxy appended.
//
// Err reports what TrustedProxies reports.
//
// # Security
//
// Safe if each proxy in the networks appends an element with the address that called
// it; see [TrustedProxies].
//
// Not safe behind a proxy that writes only X-Forwarded-For and passes Forwarded on
// unchanged, as many do: the client wrote it.
//
// Before going live, send Forwarded: for=198.51.100.1 and log [Strategy.Addr]. It must
// not be that address.
func Forwarded(cidrs ...string) Strategy {
	return chainStrategy("Forwarded", "Forwarded", cutElement, cidrs)
}

// cutElement cuts the last element off a Forwarded line and returns its for=.
//
// It reads from the right, where the trusted proxies wrote. From the left, a quote that
// a client opens and never closes would hide everything after it.
func cutElement(line string) (rest, node string, more bool) {
	seen := false
	for {
		var name, value string
		var before byte
		var ok bool
		line, name, value, before, ok = cutPair(line)
		if !ok {
			return "", "", false
		}
		if strings.EqualFold(name, "for") {
			if seen {
				return "", "", false
			}
			seen, node = true, value
		}
		if before != ';' {
			return line, node, before == ','
		}
	}
}

// cutPair cuts the last name=value off s, and the separator before it: ",", ";" or, at
// the start, 0. It is not ok if s does not end in a pair.
func cutPair(s string) (rest, name, value string, before byte, ok bool) {
	s = trimBlanks(s)
	var i int // the index after "="
	if strings.HasSuffix(s, `"`) {
		if i = openingQuote(s[:len(s)-1]); i < 0 {
			return "", "", "", 0, false
		}
		value = s[i+1 : len(s)-1] // escapes are kept: no address needs them
	} else {
		i = strings.LastIndexAny(s, `=,;"`) + 1
		value = s[i:]
	}
	if i == 0 || s[i-1] != '=' {
		return "", "", "", 0, false
	}
	s = s[:i-1]
	for i = len(s); i > 0 && isTokenByte(s[i-1]); {
		i--
	}
	name, s = s[i:], strings.TrimRight(s[:i], " \t")
	switch {
	case name == "":
		return "", "", "", 0, false
	case s == "":
		return "", name, value, 0, true
	}
	rest, before = s[:len(s)-1], s[len(s)-1]
	return rest, name, value, before, before == ',' || before == ';'
}

// openingQuote returns the index of the last quote in s that is not escaped, or -1.
func openingQuote(s string) int {
	for {
		i := strings.LastIndexByte(s, '"')
		if i < 0 {
			return -1
		}
		s = s[:i]
		unescaped := strings.TrimRight(s, `\`)
		if (len(s)-len(unescaped))%2 == 0 {
			return i
		}
		s = unescaped
	}
}
