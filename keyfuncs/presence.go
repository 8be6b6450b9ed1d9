package keyfuncs

// Presence says whether a request has the value that a [Func] makes a key of.
type Presence uint8

const (
	// Missing means that the request has no such value. The limit's OnMissingKey
	// decides.
	Missing Presence = iota
	// Present means that there is a key.
	Present
	// Ambiguous means that the request has it several times, such as a header on two
	// lines, or two different API keys. Which of them the application reads depends on
	// its framework and authentication, so the limiter can't choose and denies the
	// request.
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

// MarshalText returns the text of String, so that logs in JSON have words and no numbers.
func (p Presence) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// presentIf returns Present if ok, and Missing otherwise.
func presentIf(ok bool) Presence {
	if ok {
		return Present
	}
	return Missing
}
