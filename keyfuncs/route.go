package keyfuncs

// What stands for requests without a template. No template is spelled so: each
// has a slash or is "*".
const (
	unmatched    = "unmatched" // no route answers
	unknownRoute = "unknown"   // the limit stands where routes are not known
)

// Route limits each route by its template, such as "route:/users/:id", so that
// all users of it share a bucket; join it with another key for a bucket each.
// Templates with braces, as chi and net/http write them, are hashed.
//
// Requests that match no route share the key "route:unmatched"; there is always
// a key. The raw path is never used: it has endless spellings, each of which
// would be a fresh bucket. Where the route is not known, requests share
// "route:unknown", or the prefix that covers them, and the limiter logs advice.
func Route() Func {
	p := newPart(kindRoute)
	return Func{kind: p.kind, readsRoute: true, read: func(dst []byte, r Request) ([]byte, Presence) {
		template, known := r.Route()
		switch {
		case template != "":
		case known:
			template = unmatched
		default:
			template = unknownRoute
		}
		return p.append(dst, template)
	}}
}

// Method limits each HTTP method: "method:POST". HEAD counts as GET, which it
// stands in for. Methods other than the nine of RFC 9110 and RFC 5789 share
// "method:other", so that inventing one gains nothing; there is always a key.
func Method() Func {
	p := newPart(kindMethod)
	return Func{kind: p.kind, read: func(dst []byte, r Request) ([]byte, Presence) {
		return p.append(dst, foldMethod(r.Method()))
	}}
}

// foldMethod gives one of nine values.
func foldMethod(method string) string {
	switch method {
	case "HEAD":
		return "GET"
	case "GET", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE":
		return method
	}
	return "other"
}

// Everyone puts all requests in one bucket, "all", for a limit that protects
// what is behind it rather than being fair. One client can use it up, so give
// each client a smaller limit beside it.
func Everyone() Func {
	return Func{kind: kindAll, read: func(dst []byte, _ Request) ([]byte, Presence) {
		return append(dst, kindAll...), Present
	}}
}
