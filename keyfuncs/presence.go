package keyfuncs

// Presence says whether a request has what a [Func] makes a key of.
type Presence uint8

const (
	// Missing means that the request lacks it. The limit's OnMissingKey decides.
	Missing Presence = iota
	// Present means that there is a key.
	Present
	// Ambiguous means that the request has it several times, such as a header on two
	// lines or two different API keys. Which of them the application reads depends on its
	// framework and its authentication, so any choice could be the wrong one: a
	// limiter denies the request.
	Ambiguous
)

// String returns the presence in words.
func (p Presence) String() string {
	switch p {
	case Missing:
		return "missing"
	case Present:
		return "present"
	case Ambiguous:
		return "ambiguous"
	}
	return "unknown presence"
}

// presentIf is Present or Missing.
func presentIf(ok bool) Presence {
	if ok {
		return Present
	}
	return Missing
}
