package adversary

// dialect is what a framework reads otherwise than RFC 9112 says, or where the RFC
// leaves it a choice. Each field is one difference. Who is limited is in keys_test.go,
// and the same for all: of that a dialect says how the application reads cookies and
// parameters, and whether it takes trailers for headers.
type dialect struct {
	framework string

	// buffer is how many bytes of a header block, or a trailer section, are read; 0 is
	// more than are sent here.
	buffer int

	// emptyLines: all empty lines before a start line are skipped, and not only the
	// CRs and LFs, up to four, that old clients send after the body of a POST.
	emptyLines bool

	// startLine reads the start line. It returns why it is refused.
	startLine func(m *message, line string) string

	// badField says why a field line is refused.
	badField func(name, value string, trailer bool) string

	// trim takes off the blanks that the framework takes off.
	trim func(value string, folded bool) string

	// unfold joins a line with the one that continues it. foldEnds reports a line
	// that begins with a blank and is refused as a field of its own.
	unfold   func(line, more string, again bool) string
	foldEnds func(more string) bool

	// framing finds out how the body is sent, and returns why the request is refused.
	framing func(m *message) string

	// chunkSize reads the line before a chunk. It is not ok where the line has not
	// arrived, or is torn: not such a line.
	chunkSize func(b []byte, excess *int) (size int, rest []byte, ok, torn bool)

	// trailers reads the trailer section, which ends a chunked body.
	trailers func(p *parser, m *message)

	// bodyFirst: the body is read before the application is called, which is not
	// called for one that is torn or does not arrive.
	bodyFirst bool

	// itself reports a request that the framework answers itself, before any
	// middleware; the connection goes on.
	itself func(m *message) bool

	// ends reports whether the connection ends after a request.
	ends func(m *message, answer answer) bool

	// losesItsPlace: after a field that goes on over several lines, the framework
	// reads some bytes of the connection twice, so that what it reads next can't be foretold.
	losesItsPlace bool

	// mergesTrailers: the application reads the trailers of a body like headers.
	mergesTrailers bool

	// cookies and query read what the application reads.
	cookies func(m *message, name string) []string
	query   func(m *message, name string) []string
}

// answer is what the connection needs to know of how a request was answered.
type answer struct {
	route   string // of the handler that ran, if one did
	streams bool   // its length is not known beforehand
	aborts  bool   // the handler panicked, and nobody has recovered
	read    bool   // the handler has read the body
}
