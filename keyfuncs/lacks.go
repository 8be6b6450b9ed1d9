package keyfuncs

import "strings"

// lack says what a request lacks whose key is Missing. The texts are fixed when a Func is
// built, and hold nothing of any request.
type lack struct {
	what      string // "API key"
	challenge string // for WWW-Authenticate; "" unless the key is a credential
	oneOf     []Func // of a Join, its keys: what is missing depends on the request
}

// bearer is the challenge for credentials whose scheme this package can't know.
const bearer = "Bearer"

// Lacks names what r lacks if the key of r is [Missing], for the response to the client:
// "API key", "X-Tenant header", "authenticated user", "client address". If that is a
// credential, challenge is what asks for it in WWW-Authenticate (RFC 9110, section
// 11.6.1), such as "Bearer": the keys of [User], [Tenant] and [APIKey] are credentials, and
// so are those of [Custom] with one of their kinds. Of a [Join] it is the first key that is
// missing, of a [First] all of its keys.
//
// Both texts are fixed when the Func is built and hold nothing of r. They are "" if the
// key is not Missing.
func (f Func) Lacks(r Request) (what, challenge string) {
	var room [maxKey]byte
	if _, p := f.Append(room[:0], r); p != Missing || f.read == nil {
		return "", ""
	}
	l := f.lacks()
	for _, part := range l.oneOf {
		if what, challenge = part.Lacks(r); what != "" {
			return what, challenge
		}
	}
	return l.what, l.challenge
}

// lacks returns what requests without the key lack.
func (f Func) lacks() lack {
	if f.lack != nil {
		return *f.lack
	}
	switch kind := inKeys(f.kind); kind {
	case kindAll, kindMethod, kindRoute: // never missing
		return lack{}
	case kindIP:
		return lack{what: "client address"}
	case kindUser:
		return lack{what: "authenticated user", challenge: bearer}
	case kindTenant:
		return lack{what: "tenant", challenge: bearer}
	case kindAPIKey:
		return lack{what: "API key", challenge: bearer}
	}
	return lack{what: inKeys(f.kind)}
}

// lacksAll returns what requests lack that have none of the keys, or of a Join not all of
// them.
func lacksAll(keys []Func, conjunction string) *lack {
	var whats, challenges []string
	for _, key := range keys {
		l := key.lacks()
		whats = appendNew(whats, l.what)
		challenges = appendNew(challenges, l.challenge)
	}
	return &lack{what: strings.Join(whats, conjunction), challenge: strings.Join(challenges, ", ")}
}

// lacksKey returns what requests lack that have an API key in none of the sources. A
// header of the application's own has no registered scheme: the challenge names it as
// OpenAPI does.
func lacksKey(sources []apiKeySource) *lack {
	var challenges []string
	for i := range sources {
		switch s := &sources[i]; {
		case s.header == "Authorization": // in front, where no parameters precede it
			challenges = append([]string{bearer}, challenges...)
		case s.query != "":
			challenges = appendNew(challenges, `ApiKey in="query", name=`+quoted(s.query))
		default:
			challenges = appendNew(challenges, `ApiKey in="header", name=`+quoted(strings.TrimSuffix(s.what, " header")))
		}
	}
	return &lack{what: "API key", challenge: strings.Join(challenges, ", ")}
}

// quoted returns s as a quoted string of RFC 9110, section 5.6.4. Bytes that it can't hold,
// of the name of a query parameter, become "?".
func quoted(s string) string {
	dst := []byte{'"'}
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c > '~':
			dst = append(dst, '?')
		default:
			dst = append(dst, c)
		}
	}
	return string(append(dst, '"'))
}

// appendNew appends s unless it is empty or there already.
func appendNew(list []string, s string) []string {
	for _, before := range list {
		if before == s {
			return list
		}
	}
	if s == "" {
		return list
	}
	return append(list, s)
}
