package keyfuncs

// RequestKey is the key under which [Request.Value] returns the adapter's own request, which may have more
// methods than Request: those of [Params], [Forks], [Router] and the other interfaces here. So what wraps a
// Request by embedding it loses nothing. An adapter begins its Value with
//
//	if key == (keyfuncs.RequestKey{}) {
//		return r
//	}
type RequestKey struct{}

// As returns r as a T, such as [Params], or else the adapter's own request that r wraps; see [RequestKey]. It
// returns false if neither is one, and without a request, as for a decision for a key.
func As[T any](r Request) (found T, ok bool) {
	if reading, is := r.(*Reading); is {
		r = reading.Request
	}
	if found, ok = r.(T); ok || r == nil {
		return found, ok
	}
	found, ok = r.Value(RequestKey{}).(T)
	return found, ok
}

// Unwrap returns the adapter's own request: that in a [Reading] or in a wrapper, or else r itself.
func Unwrap(r Request) Request {
	if reading, ok := r.(*Reading); ok {
		r = reading.Request
	}
	if r == nil {
		return nil
	}
	if own, ok := r.Value(RequestKey{}).(Request); ok {
		return own
	}
	return r
}

// Forks is implemented by a [Request] whose route, though known, may not be the one that
// answers in the end: a handler of Fiber may pass the request on to the next matching
// route, and a template may have a second spelling.
type Forks interface {
	// MayReach reports whether the route with this template may answer as well.
	MayReach(template string) bool
}

// Params is implemented by a [Request] that knows the parameters of its path.
type Params interface {
	// Param returns a parameter as the framework gives it to the handler. It reports false
	// if the route has no such parameter or is not known yet.
	Param(name string) (value string, ok bool)
}

// Router is implemented by a [Request] whose framework knows its routes. Limiters advise if a condition
// names one that there is not.
type Router interface {
	// HasRoute reports whether a request can have this template. The method is "" for any.
	HasRoute(method, template string) bool

	// EachRoute calls yield with the routes, such as "POST /login", until it returns false. It calls it for none if
	// the framework lists none.
	EachRoute(yield func(route string) bool)
}

// FrameworkClient is implemented by a [Request] whose framework names the client; see [Framework].
type FrameworkClient interface {
	FrameworkIP() string
}

// FrameworkAdvice is implemented by a [Request] that knows how clients could forge what its framework says.
type FrameworkAdvice interface {
	// FrameworkRisk says why the framework's client address can be forged, or "".
	FrameworkRisk() string
}

// RouteAdvice is implemented by a [Request] that knows where a limiter belongs that needs the route.
type RouteAdvice interface {
	// RouteRemedy says what to do, or "" while it can't tell whether anything is wrong.
	RouteRemedy() string
}

// PlaceAdvice is implemented by a [Request] that knows which requests reach handlers and not the limiter.
type PlaceAdvice interface {
	// Unguarded says which, and what to do; or "" if there are none.
	Unguarded() string
}
