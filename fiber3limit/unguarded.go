package fiber3limit

// star is the path of a route or handler of Use that Fiber calls for every request.
const star = "/*"

// Unguarded is for advice: it says which requests a limiter in Use never sees. A target may have no
// path, as in "OPTIONS * HTTP/1.1", "GET http://example.com?x HTTP/1.1" and "CONNECT example.com:80
// HTTP/1.1". To Fiber that matches what is registered for "*", and nothing else: Use without a path
// means "/".
func (r *request) Unguarded() string {
	t := r.routes.table(r.c.App())
	here, ok := t.at(r.c)
	if !ok || !here.prefix || here.position >= t.lastStar || r.c.Route().Path != "/" {
		return ""
	}
	return `requests without a path, such as "OPTIONS * HTTP/1.1", do not pass a limiter in app.Use, but reach what is behind it for "*"; write app.Use("*", limiter)`
}
