package line

// Resting is a client or user that is not called.
type Resting struct {
	class        *class
	client, user *flow // user is nil if all the client rests
}

// Rest has the client of a place not called, or its user alone, whatever waits of it, until Wake. It reports false if that is so already.
func (l *Line) Rest(p *Place, user bool) (r Resting, ok bool) {
	r = Resting{class: l.classes[p.request.Class], client: p.client}
	if user && p.client.inner != nil {
		r.user = p.user
	}
	if l.Rests(r) {
		return r, false
	}
	if r.user != nil {
		r.client.inner.rest(r.user)
		r.class.settle(r.client)
	} else {
		r.class.rest(r.client)
	}
	return r, true
}

// Rests reports whether a rest means something still: neither has Wake ended it, nor was who rests forgotten.
func (l *Line) Rests(r Resting) bool {
	switch {
	case r.class.known[r.client.id] != r.client:
		return false
	case r.user == nil:
		return r.client.resting
	}
	return r.client.inner != nil && r.client.inner.known[r.user.id] == r.user && r.user.resting
}

// Wake ends a rest.
func (l *Line) Wake(r Resting) {
	switch {
	case !l.Rests(r):
	case r.user == nil:
		r.class.wake(r.client)
	default:
		r.client.inner.wake(r.user)
		r.class.settle(r.client)
	}
}
