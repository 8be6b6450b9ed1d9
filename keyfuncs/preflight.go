package keyfuncs

// Preflight holds for CORS preflights that no route answers: OPTIONS requests with one
// line each of Origin and Access-Control-Request-Method (the Fetch standard, section
// 4.8), for which the router has no route.
//
// Most applications do not need it. Put the CORS middleware in front of the limiter: it
// answers preflights, and none reaches the limiter. As an exemption, Preflight is for a
// CORS middleware that has to stand behind the limiter.
//
// # Security
//
// Anybody can send such a request, with a body, as often as they like. So Preflight
// does not hold if a route takes OPTIONS, alone or as one of all methods
// (ServeMux.HandleFunc, Any, All, a reverse proxy). It is [Unknown] where routes are
// not known.
//
// Safe with a ServeMux and Echo, which answer requests without a route with an error.
//
// Not safe elsewhere if your own code answers such requests, since it then runs without
// limits: NoRoute and NoMethod of Gin, NotFound and MethodNotAllowed of chi, and every
// handler of app.Use on Fiber, such as a proxy.
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
