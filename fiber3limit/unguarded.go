package fiber3limit

import "github.com/gofiber/fiber/v3"

// star is the path of a route or handler of Use that Fiber calls for every request.
const star = "/*"

// Unguarded is for advice: it says which requests a limiter in Use never sees. A target may have no
// path, as in "OPTIONS * HTTP/1.1", "GET http://example.com?x HTTP/1.1" and "CONNECT example.com:80
// HTTP/1.1". To Fiber that matches what is registered for "*", and nothing else: Use without a path
// means "/".
func (r *request) Unguarded() string {
	here, ok := r.routes.table(r.c.App()).at(r.c)
	if !ok || !here.prefix || r.c.Route().Path != "/" || here.position >= lastStar(r.c.App()) {
		return ""
	}
	return `requests without a path, such as "OPTIONS * HTTP/1.1", do not pass a limiter in app.Use, but reach what is behind it for "*"; write app.Use("*", limiter)`
}

// lastStar returns the position of the last route or handler of Use that is for "*", in any method; else -1.
func lastStar(app *fiber.App) int {
	last := -1
	for _, stack := range app.Stack() {
		for i, route := range stack {
			if route.Path == star {
				last = max(last, i)
			}
		}
	}
	return last
}
