package keyfuncs

import "net/textproto"

// HeaderOf returns the value of a request header, trimmed, for the functions of
// core.Limit.CostBy and Tiers and of [Matches]:
//
//	CostBy(func(r keyfuncs.Request) int64 { return parse(keyfuncs.HeaderOf(r, "X-Items")) })
//
// It is "" if the header is missing or empty, or on more than one line. A limiter denies a
// request with a second line with status 400, as it does for an ambiguous key: the
// application might read the other line. In Config.Bypass such a request is not exempt.
//
// # Security
//
// A client writes its headers. Let it choose nothing by them that costs less than what the
// handler then does: check the value there, or have your proxy set it.
func HeaderOf(r Request, name string) string {
	value, p := readHeader(r, textproto.CanonicalMIMEHeaderKey(name))
	return noted(r, value, p, name, " header")
}

// QueryOf is [HeaderOf] for a query parameter.
func QueryOf(r Request, name string) string {
	value, p := readQuery(r, name)
	return noted(r, value, p, name, " query parameter")
}

// CookieOf is [HeaderOf] for a cookie. Several cookies of one name count as one if they have
// the same value.
func CookieOf(r Request, name string) string {
	value, p := readCookie(r, name)
	return noted(r, value, p, name, " cookie")
}

// ParamOf returns a parameter of the path, as [Param] reads it, or "" if there is none.
func ParamOf(r Request, name string) string {
	value, _ := readParam(r, name)
	return value
}

// noted notes an ambiguous value.
func noted(r Request, value string, p Presence, name, what string) string {
	if p == Ambiguous {
		if reading, ok := r.(*Reading); ok && reading.repeated == "" {
			if !isToken(name) { // it becomes part of the response
				name = "named"
			}
			reading.repeated = name + what
		}
		return ""
	}
	return value
}

// Reading is the request as a limiter shows it to an application's function. It notes whether
// [HeaderOf], [QueryOf] or [CookieOf] have found several values where there should be one. It is
// for authors of limiters, and for one goroutine.
type Reading struct {
	Request
	repeated string
}

// Repeated names the first value that was found several times, such as "X-Items header", or
// returns "".
func (r *Reading) Repeated() string { return r.repeated }
