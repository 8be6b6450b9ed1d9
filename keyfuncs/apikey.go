package keyfuncs

import (
	"errors"
	"net/textproto"
	"strings"
	"unicode"
)

// APIKey limits each API key. A source says where it is sent:
//
//   - a header name, such as "X-API-Key";
//   - "Authorization", which means its Bearer token; other schemes are not read;
//   - "?name", the query parameter with this name.
//
// Defaults to "X-API-Key" and "Authorization". The key is always hashed,
// "apikey#…", so neither store, log nor metric sees it, and is the same whichever
// source it came from. That hides long random keys; for short ones, which could be
// found by trying all, add a secret of the app's:
// APIKey("X-API-Key").WithSecret(secret).
//
// A request has no key when all sources are empty. Its key is [Ambiguous] when a
// header has more than one line, a parameter is there twice, two sources hold
// different keys, or a Bearer token has a blank in it: the app might read another
// one than the limit does. Blanks around a key are no part of it.
//
// Err reports a source that is not a header name, one that carries addresses, and
// "?" without a name.
//
// # Security
//
// A limit that runs before authentication counts keys that nobody has checked:
// a client that makes up keys has endless fresh buckets, and one that knows
// somebody's key, or guesses it, uses up their bucket. So put it behind
// authentication, or combine it with a limit by [ClientIP].
//
// Name the sources that your authentication reads and no others: a source that
// only the limit reads lets a client choose its bucket. Where Authorization holds
// something else beside the API key, such as a user's token, name the other header
// alone. Authentication that takes a token under another scheme, or under none, reads
// what the limit does not; have it refuse. A key in the query ends up in access logs on its way; prefer a header.
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
	return Func{kind: kindAPIKey, read: apiKeyReader(parsed), repeated: func(r Request) string {
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

// apiKeyReader looks into all sources, also behind the first that holds a key.
func apiKeyReader(sources []apiKeySource) func([]byte, Request) ([]byte, Presence) {
	p := newPart(kindAPIKey)
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

// repeatedAPIKey names the source that is ambiguous, or the key if sources differ.
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

// apiKeySource is one place to look: a header or a parameter of the query.
type apiKeySource struct {
	header string // canonical
	query  string
	what   string // names it to the client
}

// read gives "" unless the source holds one key.
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

// bearerToken reads the token of an Authorization value that was trimmed. Other
// schemes have none. A token holds no blanks (RFC 6750, section 2.1): applications
// that split the value at them would take the first word of several, "abc" of
// "Bearer abc 1", and so have one key where the limit sees many.
func bearerToken(value string) (string, Presence) {
	const scheme = "Bearer"
	if len(value) <= len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return "", Missing
	}
	rest := value[len(scheme):]
	token := trimValue(rest)
	switch {
	case len(token) == len(rest): // the name of another scheme goes on
		return "", Missing
	case strings.ContainsFunc(token, unicode.IsSpace):
		return "", Ambiguous
	}
	return token, Present
}
