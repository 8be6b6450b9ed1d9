package keyfuncs

import (
	"fmt"
	"net/textproto"
	"strings"
)

// Header limits by the value of a request header, such as "X-Tenant". The key is
// "header.x-tenant:42". It is hashed if the name suggests a secret or the value is long
// or odd (see the package comment). Whitespace around the value is removed; case and
// inner whitespace count.
//
// The key is [Missing] if the header is missing or empty. It is [Ambiguous] if there is
// more than one line of it: proxies and frameworks differ in which line they read, so a
// client could show one value to the limit and another to the application.
//
// Err reports a name that is not a header name, is longer than 64 bytes, or contains
// "#" or "|". It also reports headers that carry addresses, such as X-Forwarded-For and
// X-Real-IP. Clients could write these to choose their bucket; [ClientIP] reads them
// from proxies only. [Custom] takes the text of any header.
//
// # Security
//
// Safe for a header that your proxy sets on every request, replacing what the client
// sent, and for a header that was verified before the limit.
//
// Not safe otherwise. A client that may choose the value has a fresh bucket for each
// value, and can use up the bucket of anybody else. Combine it with a limit by
// [ClientIP]. For credentials use [APIKey].
func Header(name string) Func {
	if problem := checkName("header", name); problem != "" {
		return Func{err: nameError("Header", name, problem)}
	}
	if err := addressHeaderError("Header", name); err != nil {
		return Func{err: err}
	}
	p := newEncoder(prefixHeader + strings.ToLower(name))
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	f := single(p, name+" header", func(r Request) (string, Presence) { return readHeader(r, canonical) })
	f.lack = &lack{what: name + " header"}
	return f
}

// Cookie limits by the value of a cookie. The value is always hashed, "cookie.sid#…",
// since most cookies are sessions. Names are case-sensitive.
//
// The key is [Missing] if the cookie is missing or empty. It is [Ambiguous] if several
// cookies of that name have different values.
//
// Err reports a name that is not a cookie name, is longer than 64 bytes, or contains
// "#" or "|".
//
// # Security
//
// Safe for a cookie that was verified before the limit, such as an existing session.
//
// Not safe otherwise. A client that drops the cookie, or sends a new value each time,
// is a new client each time. Combine it with a limit by [ClientIP].
func Cookie(name string) Func {
	if problem := checkName("cookie", name); problem != "" {
		return Func{err: nameError("Cookie", name, problem)}
	}
	p := newEncoder(prefixCookie + name)
	f := single(p, name+" cookie", func(r Request) (string, Presence) { return readCookie(r, name) })
	f.lack = &lack{what: name + " cookie"}
	return f
}

// single returns a Func over one value that a request may carry several times. what is
// the name of the value in responses.
func single(p encoder, what string, value func(Request) (string, Presence)) Func {
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

// nameError returns the problem that checkName found as an error.
func nameError(constructor, name, problem string) error {
	if len(name) > maxName {
		name = name[:maxName] + "…"
	}
	return fmt.Errorf("weblimit: keyfuncs.%s: %q %s", constructor, name, problem)
}
