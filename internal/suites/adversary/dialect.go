package adversary

// Dialect says where a framework reads requests differently from RFC 9112, or what it does
// where the RFC leaves a choice. Each field is one difference. The keys of requests are in
// keys_test.go and the same for all frameworks, except for how the application reads
// cookies, query parameters and trailers.
type Dialect struct {
	framework string

	// buffer is the largest size of a header block or trailer section in bytes. 0 means
	// more than the tests send.
	buffer int

	// emptyLines says that all empty lines before a start line are skipped. Without it,
	// only up to four CRs and LFs are, which old clients send after the body of a POST.
	emptyLines bool

	// crlf says that a header block waits for an empty line behind a CRLF, even if another empty
	// line ends it.
	crlf bool

	// startLine reads the start line. It returns the reason if the line is refused.
	startLine func(m *message, line string) string

	// badField returns the reason if a field line is refused.
	badField func(name, value string, trailer bool) string

	// trim removes the blanks around a value that the framework removes.
	trim func(value string, folded bool) string

	// unfold joins a line with the line that continues it. foldEnds reports whether a line
	// that begins with a blank is refused instead.
	unfold   func(line, more string, again bool) string
	foldEnds func(more string) bool

	// framing determines how the body is sent. It returns the reason if the request is refused.
	framing func(m *message) string

	// chunkSize reads the line before a chunk. ok is false if the line has not arrived, torn
	// is true if it is malformed.
	chunkSize func(b []byte, excess *int) (size int, rest []byte, ok, torn bool)

	// trailers reads the trailer section, which ends a chunked body.
	trailers func(p *parser, m *message)

	// bodyFirst says that the body is read before the application is called. A malformed or
	// incomplete body never reaches the application.
	bodyFirst bool

	// reports says that middleware, but no handler, runs for a request that cannot be read. It may
	// see the request, as far as it was read, or one for "/".
	reports bool

	// itself reports whether the framework answers the request by itself, before any
	// middleware, and keeps the connection open.
	itself func(m *message) bool

	// ends reports whether the connection ends after a request.
	ends func(m *message, answer answer) bool

	// losesItsPlace says that after a field of several lines the framework reads some bytes
	// twice, so that its next requests cannot be predicted.
	losesItsPlace bool

	// mergesTrailers says that the application reads trailers like headers.
	mergesTrailers bool

	// cookies and query return the values that the application reads.
	cookies func(m *message, name string) []string
	query   func(m *message, name string) []string
}

// answer is how a request was answered, as far as that affects the connection.
type answer struct {
	route   string // of the handler that ran, if one did
	streams bool   // the length is not known beforehand
	aborts  bool   // the handler panicked and nothing recovered
	read    bool   // the handler has read the body
}
