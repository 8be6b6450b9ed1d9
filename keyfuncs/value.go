package keyfuncs

import "strings"

// The application may read a value differently than the limiter if a client sends it
// several times, or with whitespace around it. So all keys and conditions read headers,
// cookies and query parameters through the functions of this file.

// maxRepeats bounds how many cookies of one name are compared.
const maxRepeats = 8

// onlyLine reads a header that may have one line only. The value is not trimmed.
func onlyLine(r Request, canonical string) (string, Presence) {
	value, ok := r.Header(canonical, 0)
	if !ok {
		return "", Missing
	}
	if _, more := r.Header(canonical, 1); more {
		return "", Ambiguous
	}
	return value, Present
}

// readHeader reads a header that may have one line only, and trims it. The value is ""
// unless it is Present; an empty line is Missing.
func readHeader(r Request, canonical string) (string, Presence) {
	value, p := onlyLine(r, canonical)
	if p != Present {
		return "", p
	}
	return present(value)
}

// readCookie reads a cookie. Clients send several cookies of one name, set for different
// paths. They are Ambiguous unless they have the same value.
func readCookie(r Request, name string) (string, Presence) {
	value, ok := r.Cookie(name, 0)
	if !ok {
		return "", Missing
	}
	value = trimValue(value)
	for i := 1; ; i++ {
		switch next, more := r.Cookie(name, i); {
		case !more:
			return present(value)
		case i == maxRepeats, trimValue(next) != value:
			return "", Ambiguous
		}
	}
}

// readQuery reads a query parameter that may occur once only.
func readQuery(r Request, name string) (string, Presence) {
	value, ok := r.Query(name, 0)
	if !ok {
		return "", Missing
	}
	if _, more := r.Query(name, 1); more {
		return "", Ambiguous
	}
	return present(value)
}

// present trims a value. An empty one is Missing.
func present(value string) (string, Presence) {
	value = trimValue(value)
	return value, presentIf(value != "")
}

// trimValue removes whitespace around a value. Spaces and tabs are not part of a field's
// value (RFC 9110, section 5.5), though fasthttp keeps tabs. Other Unicode whitespace is
// what applications remove with strings.TrimSpace: with it, one API key would be many to
// the limiter and one to the application.
func trimValue(s string) string {
	if s == "" || isVisible(s[0]) && isVisible(s[len(s)-1]) {
		return s
	}
	return strings.TrimSpace(s)
}

// isVisible reports whether c is printable ASCII other than a space.
func isVisible(c byte) bool { return c > ' ' && c <= '~' }
