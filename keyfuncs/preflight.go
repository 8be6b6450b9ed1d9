package keyfuncs

// Preflight holds for CORS preflights (the Fetch standard, section 4.8): OPTIONS
// with Origin and Access-Control-Request-Method, one line each. Browsers send
// them on their own, without credentials, and a denied one reads to an app as a
// broken network and not as 429.
//
// # Security
//
// Anybody can send such a request. It is safe as an exemption where OPTIONS is
// answered by CORS middleware or not at all, which costs next to nothing. Not
// where a handler for OPTIONS, or for any method, does work: limit it there.
func Preflight() Condition {
	return Condition{match: func(r Request) bool {
		if r.Method() != "OPTIONS" {
			return false
		}
		origin, _ := onlyLine(r, "Origin")
		method, _ := onlyLine(r, "Access-Control-Request-Method")
		return origin != "" && method != ""
	}}
}
