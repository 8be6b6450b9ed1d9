package envoy

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
)

// longestName is how long the name of a limit can be.
const longestName = 64

// limitName returns the name of the limit of a domain that some descriptors lead to, or of that for overrides where there
// are none: "edge.action-login.remote_address", "edge..override". Stores count by it, so it depends on nothing else, not
// on other rules or the order of files: all processes have one name for a rule, and no other rule has it. What is
// long, or has characters that don't tell domain, keys and values apart, ends in a hash behind two dots.
func limitName(domain string, way []*descriptor) string {
	exact := strconv.AppendQuote(nil, domain)
	read, plain := domain, consistsOf(domain, "_-")
	if len(way) == 0 {
		read += "..override"
	}
	for _, d := range way {
		exact = strconv.AppendQuote(append(exact, '.'), d.key)
		read, plain = read+"."+d.key, plain && consistsOf(d.key, "_")
		if d.value != "" {
			exact = strconv.AppendQuote(append(exact, '-'), d.value)
			read, plain = read+"-"+d.value, plain && consistsOf(d.value, "_-")
		}
	}
	if plain && len(read) <= longestName {
		return read
	}
	sum := sha256.Sum256(exact)
	hash := ".." + base64.RawURLEncoding.EncodeToString(sum[:16])
	read = strings.Map(func(r rune) rune {
		if r < 0x80 && consistsOf(string(r), "._-") {
			return r
		}
		return '-'
	}, read)
	return read[:min(len(read), longestName-len(hash))] + hash
}

// consistsOf reports whether a text has letters of English, digits and some other characters alone.
func consistsOf(text, others string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(others, c) >= 0:
		default:
			return false
		}
	}
	return true
}
