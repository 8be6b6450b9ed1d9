package keyfuncs

import "strings"

// What a client sends several times, or with blanks around it, may read
// differently to the application than to the limiter. All keys and conditions
// read headers, cookies and parameters of the query through this file.

// maxRepeats bounds how many cookies of one name are compared.
const maxRepeats = 8

// onlyLine reads a header that may have one line, as it is.
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

// readHeader reads a header that may have one line. The value is "" unless it is
// Present; a line without a value is Missing.
func readHeader(r Request, canonical string) (string, Presence) {
	value, p := onlyLine(r, canonical)
	if p != Present {
		return "", p
	}
	return present(value)
}

// readCookie reads a cookie. Clients send several of one name, for different
// paths; they are Ambiguous unless they have the same value.
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

// readQuery reads a parameter of the query that may be there once.
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

// present trims a value, and tells an empty one from others.
func present(value string) (string, Presence) {
	value = trimValue(value)
	return value, presentIf(value != "")
}

// trimValue removes blanks around a value. Spaces and tabs are no part of a field's
// value (RFC 9110, section 5.5), though fasthttp keeps tabs. The other blanks of
// Unicode are those that applications remove with strings.TrimSpace: with each of
// them, one API key would be many to the limiter and one to the application.
func trimValue(s string) string {
	if s == "" || isVisible(s[0]) && isVisible(s[len(s)-1]) {
		return s
	}
	return strings.TrimSpace(s)
}

// isVisible reports whether c is ASCII and leaves a mark.
func isVisible(c byte) bool { return c > ' ' && c <= '~' }
