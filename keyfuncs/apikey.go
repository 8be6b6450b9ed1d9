package keyfuncs

import (
	"errors"
	"net/textproto"
	"strings"
	"unicode"
)

// APIKey limits each API key. A source says where the key is sent:
//
//   - a header name, such as "X-API-Key";
//   - "Authorization", for its Bearer token; other schemes are not read;
//   - "?name", for the query parameter name.
//
// The sources default to "X-API-Key" and "Authorization". The key is always hashed,
// "apikey#…", so that no store, log or metric holds it. It is the same whichever source
// it came from. The hash hides long random keys. For short ones, which can be found by
// trying them all, add a secret: APIKey("X-API-Key").WithSecret(secret).
//
// The key is [Missing] if all sources are empty. It is [Ambiguous] if a header has more
// than one line, a parameter occurs twice, two sources hold different keys, or a Bearer
// token contains whitespace: the application might read another key than the limit.
// Whitespace around a key is not part of it.
//
// Err reports a source that is not a header name, a header that carries addresses, and
// "?" without a name.
//
// # Security
//
// Safe behind authentication, or combined with a limit by [ClientIP].
//
// Not safe alone in front of authentication. An unverified API key is
// attacker-controlled: a client that makes up keys has endless fresh buckets, and one
// that knows or guesses somebody's key uses up that bucket.
//
// Name the sources that your authentication reads, and no others: a source that only
// the limit reads lets clients choose their bucket. If Authorization holds something
// other than the API key, such as a user's token, name the other header alone. If your
// authentication takes tokens under another scheme, or under none, have it refuse
// these: the limit does not read them. A key in the query ends up in access logs;
// prefer a header.
func APIKey(sources ...string) Func {
	if len(sources) == 0 {
		sources = []string{"X-API-Key", "Authorization"}
	}
	parsed := make([]apiKeySource, len(sources))
	for i, s := range sources {
		var err error
		if parsed[i], err = parseSource(s); err != nil {
			return Func{err: err}
		}
	}
	return Func{kind: kindAPIKey, read: apiKeyReader(parsed), lack: lacksKey(parsed), repeated: func(r Request) string {
		return repeatedAPIKey(parsed, r)
	}}
}

func parseSource(s string) (apiKeySource, error) {
	if query, isQuery := strings.CutPrefix(s, "?"); isQuery {
		if query == "" {
			return apiKeySource{}, errors.New(`weblimit: keyfuncs.APIKey: "?" names no query parameter`)
		}
		return apiKeySource{query: query, what: query + " query parameter"}, nil
	}
	if problem := checkName("header", s); problem != "" {
		return apiKeySource{}, nameError("APIKey", s, problem)
	}
	if err := addressHeaderError("APIKey", s); err != nil {
		return apiKeySource{}, err
	}
	return apiKeySource{header: textproto.CanonicalMIMEHeaderKey(s), what: s + " header"}, nil
}

// apiKeyReader reads all sources, also after the first that holds a key.
func apiKeyReader(sources []apiKeySource) func([]byte, Request) ([]byte, Presence) {
	p := newEncoder(kindAPIKey)
	return func(dst []byte, r Request) ([]byte, Presence) {
		found := ""
		for i := range sources {
			value, presence := sources[i].read(r)
			if presence == Ambiguous || found != "" && value != "" && value != found {
				return dst, Ambiguous
			}
			if value != "" {
				found = value
			}
		}
		return p.append(dst, found)
	}
}

// repeatedAPIKey names the ambiguous source, or "API key" if two sources differ.
func repeatedAPIKey(sources []apiKeySource, r Request) string {
	found := ""
	for i := range sources {
		value, presence := sources[i].read(r)
		switch {
		case presence == Ambiguous:
			return sources[i].what
		case found != "" && value != "" && value != found:
			return "API key"
		case value != "":
			found = value
		}
	}
	return ""
}

// apiKeySource is a header or a query parameter.
type apiKeySource struct {
	header string // canonical
	query  string
	what   string // the name of the source in responses
}

// read returns "" unless the source holds exactly one key.
func (s *apiKeySource) read(r Request) (string, Presence) {
	if s.query != "" {
		return readQuery(r, s.query)
	}
	value, presence := readHeader(r, s.header)
	if presence == Present && s.header == "Authorization" {
		return bearerToken(value)
	}
	return value, presence
}

// bearerToken reads the token from a trimmed Authorization value. Other schemes have
// none. A token holds no whitespace (RFC 6750, section 2.1). Applications that split
// the value there would take the first word, "abc" of "Bearer abc 1", and so have one
// key where the limiter sees many.
func bearerToken(value string) (string, Presence) {
	const scheme = "Bearer"
	if len(value) <= len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return "", Missing
	}
	rest := value[len(scheme):]
	token := trimValue(rest)
	switch {
	case len(token) == len(rest): // the name of a longer scheme
		return "", Missing
	case strings.ContainsFunc(token, unicode.IsSpace):
		return "", Ambiguous
	}
	return token, Present
}
