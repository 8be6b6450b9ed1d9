package keyfuncs

// Preflight holds for CORS preflights that no route answers: OPTIONS with Origin
// and Access-Control-Request-Method, one line each (the Fetch standard, section
// 4.8), of which the router knows that it has no route for them.
//
// Most applications do not need it. Put the CORS middleware before the limiter:
// it answers preflights itself, and none reaches the limiter. As an exemption,
// Preflight is for a CORS middleware that has to stand behind the limiter.
//
// # Security
//
// Anybody can send such a request, with a body, as often as they like. So a
// preflight counts where a route takes OPTIONS, on its own or as one of all
// methods (ServeMux.HandleFunc, Any, All, a reverse proxy), and it is [Unknown]
// where routes are not known.
//
// What the exemption gives away is all that answers requests without a route. A
// ServeMux and Echo answer them with an error. Elsewhere that is code of yours,
// which then runs unlimited: NoRoute and NoMethod of Gin, NotFound and
// MethodNotAllowed of chi, and on Fiber every handler of app.Use, such as a proxy.
func Preflight() Condition {
	return Condition{ask: func(r Request) Answer {
		if r.Method() != "OPTIONS" {
			return No
		}
		origin, _ := onlyLine(r, "Origin")
		method, _ := onlyLine(r, "Access-Control-Request-Method")
		if origin == "" || method == "" {
			return No
		}
		switch template, known := r.Route(); {
		case !known:
			return Unknown
		case template != "":
			return No
		}
		return Yes
	}}
}
