package keyfuncs

import (
	"errors"
	"net/textproto"
	"strings"
)

// APIKey limits each API key. A source says where it is sent:
//
//   - a header name, such as "X-API-Key";
//   - "Authorization", which means its Bearer token; other schemes are not read;
//   - "?name", the query parameter with this name.
//
// The first source that is not empty counts. Defaults to "X-API-Key", then
// "Authorization". The key is always hashed, "apikey#…", so neither store, log
// nor metric sees it, and is the same whichever source it came from. That hides
// long random keys; for short ones, which could be found by trying all, add a
// secret of the app's: APIKey("X-API-Key").WithSecret(secret).
//
// A request has no key when all sources are empty, and when a header that was
// to be read has more than one line: falling through to the next source would
// let a client pick its bucket there while the app reads the doubled header.
//
// Err reports a source that is not a header name, and "?" without a name.
//
// # Security
//
// A limit that runs before authentication counts keys that nobody has checked:
// a client that makes up keys has endless fresh buckets, and one that knows
// somebody's key, or guesses it, uses up their bucket. So put it behind
// authentication, or combine it with a limit by [ClientIP].
//
// Name the sources that your authentication reads, in its order, and no others:
// a source that only the limit reads lets a client choose its bucket. A key in
// the query ends up in access logs on its way; prefer a header.
func APIKey(sources ...string) Func {
	if len(sources) == 0 {
		sources = []string{"X-API-Key", "Authorization"}
	}
	parsed := make([]apiKeySource, len(sources))
	for i, s := range sources {
		query, isQuery := strings.CutPrefix(s, "?")
		if isQuery {
			if query == "" {
				return Func{err: errors.New(`weblimit: keyfuncs.APIKey: "?" names no query parameter`)}
			}
			parsed[i] = apiKeySource{query: query}
			continue
		}
		if problem := checkName("header", s); problem != "" {
			return Func{err: nameError("APIKey", s, problem)}
		}
		parsed[i] = apiKeySource{header: textproto.CanonicalMIMEHeaderKey(s)}
	}
	p := newPart(kindAPIKey)
	return Func{kind: p.kind, read: func(dst []byte, r Request) ([]byte, bool) {
		for _, s := range parsed {
			value, ok := s.read(r)
			if !ok {
				return dst, false
			}
			if value != "" {
				return p.append(dst, value)
			}
		}
		return dst, false
	}}
}

// apiKeySource is one place to look; exactly one field is set.
type apiKeySource struct {
	header string // canonical
	query  string
}

// read gives "" when the source holds no key. ok is false when no other source
// may be tried.
func (s apiKeySource) read(r Request) (value string, ok bool) {
	if s.query != "" {
		value, _ = r.Query(s.query)
		return value, true
	}
	value, ok = onlyLine(r, s.header)
	if s.header == "Authorization" {
		value = bearerToken(value)
	}
	return value, ok
}

// bearerToken is the token of an Authorization value, "" for other schemes.
func bearerToken(value string) string {
	const scheme = "Bearer "
	if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return ""
	}
	return strings.Trim(value[len(scheme):], " ")
}
