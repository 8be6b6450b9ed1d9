package keyfuncs

import (
	"fmt"
	"net/textproto"
	"strings"
)

// Header limits by the value of a request header, such as "X-Tenant". The key
// is "header.x-tenant:42", hashed where the name tells of a secret or the value
// is long or odd (see the package comment). The value is taken without the blanks
// around it; case and inner blanks count.
//
// A request has no key without the header and with an empty one. More than one
// line of it is [Ambiguous]: proxies and frameworks differ on which line counts, so
// a client could otherwise show one value to the limit and another to the app.
//
// Err reports a name that is not a header name, is longer than 64 bytes, or
// holds "#" or "|". It also reports headers that carry addresses, such as
// X-Forwarded-For and X-Real-IP: whoever writes these would choose the bucket, and
// [ClientIP] reads them only from proxies.
//
// # Security
//
// Safe for a header that a proxy of yours sets on every request, replacing what
// the client sent, and for one that was checked before the limit.
//
// Not safe otherwise: whoever may choose the value has a fresh bucket per value
// and can use up the bucket of anybody else. Combine it with a limit by IP.
// For credentials use [APIKey].
func Header(name string) Func {
	if problem := checkName("header", name); problem != "" {
		return Func{err: nameError("Header", name, problem)}
	}
	if err := addressHeaderError("Header", name); err != nil {
		return Func{err: err}
	}
	p := newPart(prefixHeader + strings.ToLower(name))
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	return single(p, name+" header", func(r Request) (string, Presence) { return readHeader(r, canonical) })
}

// Cookie limits by the value of a cookie. The value is always hashed, since
// most cookies are sessions: "cookie.sid#…". Names are case-sensitive.
//
// A request without the cookie, or with an empty one, has no key. Several cookies of
// that name with different values are [Ambiguous].
//
// Err reports a name that is not a cookie name, is longer than 64 bytes, or
// holds "#" or "|".
//
// # Security
//
// Safe for a cookie that was checked before the limit, such as a session that
// exists. Not safe otherwise: a client without the cookie, or with a new value
// each time, is a new client each time. Combine it with a limit by IP.
func Cookie(name string) Func {
	if problem := checkName("cookie", name); problem != "" {
		return Func{err: nameError("Cookie", name, problem)}
	}
	p := newPart(prefixCookie + name)
	return single(p, name+" cookie", func(r Request) (string, Presence) { return readCookie(r, name) })
}

// single is a Func over one value that a request may have several times. what names
// the value to the client.
func single(p part, what string, value func(Request) (string, Presence)) Func {
	return Func{
		kind: p.kind,
		read: func(dst []byte, r Request) ([]byte, Presence) {
			value, presence := value(r)
			if presence != Present {
				return dst, presence
			}
			return p.append(dst, value)
		},
		repeated: func(r Request) string {
			if _, presence := value(r); presence == Ambiguous {
				return what
			}
			return ""
		},
	}
}

// nameError words what checkName found.
func nameError(constructor, name, problem string) error {
	if len(name) > maxName {
		name = name[:maxName] + "…"
	}
	return fmt.Errorf("weblimit: keyfuncs.%s: %q %s", constructor, name, problem)
}
