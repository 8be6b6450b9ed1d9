package keyfuncs

import (
	"fmt"
	"net/textproto"
	"strings"
)

// Header limits by the value of a request header, such as "X-Tenant". The key
// is "header.x-tenant:42", hashed where the name tells of a secret or the value
// is long or odd (see the package comment). The value is taken as it is: case
// and inner spaces count.
//
// A request has no key without the header, with an empty one, and with more
// than one line of it: proxies and frameworks differ on which line counts, so a
// client could otherwise show one value to the limit and another to the app.
//
// Err reports a name that is not a header name, is longer than 64 bytes, or
// holds "#" or "|".
//
// # Security
//
// Safe for a header that a proxy of yours sets on every request, replacing what
// the client sent, and for one that was checked before the limit.
//
// Not safe otherwise: whoever may choose the value has a fresh bucket per value
// and can use up the bucket of anybody else. Combine it with a limit by IP.
// For addresses (X-Forwarded-For and its kin) it is never right; for
// credentials use [APIKey].
func Header(name string) Func {
	if problem := checkName("header", name); problem != "" {
		return Func{err: nameError("Header", name, problem)}
	}
	p := newPart(prefixHeader + strings.ToLower(name))
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	return Func{kind: p.kind, read: func(dst []byte, r Request) ([]byte, bool) {
		value, _ := onlyLine(r, canonical)
		return p.append(dst, value)
	}}
}

// Cookie limits by the value of a cookie. The value is always hashed, since
// most cookies are sessions: "cookie.sid#…". Names are case-sensitive.
//
// A request without the cookie, or with an empty one, has no key. Of several
// cookies of one name the framework's choice counts.
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
	return Func{kind: p.kind, read: func(dst []byte, r Request) ([]byte, bool) {
		value, _ := r.Cookie(name)
		return p.append(dst, value)
	}}
}

// onlyLine reads a header that may have one line at most. It gives "" when there
// is none, and not ok when there are several.
func onlyLine(r Request, canonical string) (value string, ok bool) {
	value, present := r.Header(canonical, 0)
	if !present {
		return "", true
	}
	if _, more := r.Header(canonical, 1); more {
		return "", false
	}
	return value, true
}

// nameError words what checkName found.
func nameError(constructor, name, problem string) error {
	if len(name) > maxName {
		name = name[:maxName] + "…"
	}
	return fmt.Errorf("weblimit: keyfuncs.%s: %q %s", constructor, name, problem)
}
