package keyfuncs

// Param limits by a parameter of the path, such as "id" of "/items/:id" or "/items/{id}". The
// key is "param.id:42". It is hashed if the name suggests a secret or the value is long or odd
// (see the package comment).
//
// The key is [Missing] if the route has no such parameter, or if its value is empty. It is also
// missing where the parameters are not known yet, and the limiter then logs advice: put the
// limiter on the route. Gin and Echo know them in all middleware but Echo's Pre; chi in With and
// Group; Fiber and net/http on the route.
//
// The key holds nothing of the rest of the path: join it with [Route] unless the parameter means
// the same on all routes of the limit.
//
// Err reports a name that is not a token, is longer than 64 bytes, or contains "#" or "|".
//
// # Security
//
// The client chooses the value, and so has a fresh bucket for each. It suits limits that
// protect a resource, such as an account that is tried with many passwords; combine it with a
// limit by [ClientIP].
//
// The value is what the framework gives to the handler. If the handler goes on to decode it,
// fold its case, or parse "007" as 7, one resource has many spellings, each with a bucket: make
// such a key by the Key function of your adapter.
func Param(name string) Func {
	if problem := checkName("path parameter", name); problem != "" {
		return Func{err: nameError("Param", name, problem)}
	}
	p := newEncoder(prefixParam + name)
	return Func{kind: p.kind, params: []string{name}, lack: &lack{what: name + " path parameter"}, read: func(dst []byte, r Request) ([]byte, Presence) {
		value, _ := readParam(r, name)
		return p.append(dst, value)
	}}
}

// readParam reads a parameter of the path, and trims it.
func readParam(r Request, name string) (value string, ok bool) {
	params, ok := As[Params](r)
	if !ok {
		return "", false
	}
	value, ok = params.Param(name)
	return trimValue(value), ok
}

// ReadsParams reports whether the key, or a part of it, is that of [Param]. Limiters use it to
// give advice.
func (f Func) ReadsParams() bool { return len(f.params) > 0 }

// Unrouted returns the first path parameter of the key that the route of r lacks, or that is not
// known yet; and "" if there is none, or if r has no route at all. Limiters use it to give advice.
func (f Func) Unrouted(r Request) string {
	for _, name := range f.params {
		if _, ok := readParam(r, name); ok {
			continue
		}
		if route, known := r.Route(); route != "" || !known {
			return name
		}
	}
	return ""
}
