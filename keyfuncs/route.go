package keyfuncs

// Values for requests without a template. No template equals them: each contains a
// slash or is "*".
const (
	unmatched    = "unmatched" // no route answers
	unknownRoute = "unknown"   // the route is not known yet
)

// Route limits each route by its template, such as "route:/users/:id", in one bucket
// for all clients. Join it with another key for a bucket per client and route.
// Templates with braces, as in chi and net/http, are hashed.
//
// The key is always present. Requests that match no route share "route:unmatched".
// Where the route is not known, as in front of the router, requests share
// "route:unknown", or the key of the prefix that covers them, and the limiter logs
// advice.
//
// # Security
//
// Safe: the router chooses the template. The raw path is never used, since it has endless
// spellings and each would be a fresh bucket.
func Route() Func {
	p := newEncoder(kindRoute)
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

// Method limits each HTTP method: "method:POST". HEAD counts as GET. Methods other than
// the nine of RFC 9110 and RFC 5789 share "method:other". The key is always present.
//
// # Security
//
// A client chooses its method, but has nine buckets at most: a made-up method is
// "method:other".
func Method() Func {
	p := newEncoder(kindMethod)
	return Func{kind: p.kind, read: func(dst []byte, r Request) ([]byte, Presence) {
		return p.append(dst, foldMethod(r.Method()))
	}}
}

// foldMethod returns one of nine values.
func foldMethod(method string) string {
	switch method {
	case "HEAD":
		return "GET"
	case "GET", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE":
		return method
	}
	return "other"
}

// Everyone puts all requests in one bucket, "all". Such a limit protects what is behind
// it and is not fair: one client can use it up, so give each client a smaller limit
// beside it.
func Everyone() Func {
	return Func{kind: kindAll, read: func(dst []byte, _ Request) ([]byte, Presence) {
		return append(dst, kindAll...), Present
	}}
}
