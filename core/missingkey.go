package core

import (
	"fmt"
	"strings"
)

// MissingKeyAnswer is how requests are answered that lack the key of a limit with
// [DenyRequest].
type MissingKeyAnswer struct {
	// Status is the status, from 400 to 499. Many clients repeat a request that was
	// answered with 429, which can't help here. Defaults to 401 if the key is a credential,
	// and to 400 if not.
	Status int

	// Challenge is the WWW-Authenticate header of a 401, such as `Basic realm="api"`. It is
	// required if Status is 401. Defaults to what [keyfuncs.Func.Lacks] returns: Bearer, and
	// for an API key the names of its header or query parameter.
	Challenge string
}

func (m MissingKeyAnswer) validate() error {
	switch {
	case m.Status != 0 && (m.Status < 400 || m.Status > 499):
		return fmt.Errorf("weblimit: Config.MissingKey: the status must be from 400 to 499, got %d", m.Status)
	case m.Status == statusUnauthorized && m.Challenge == "":
		return fmt.Errorf("weblimit: Config.MissingKey: a 401 needs a Challenge, such as Bearer, or leave out Status")
	case m.Status != 0 && m.Status != statusUnauthorized && m.Challenge != "":
		return fmt.Errorf("weblimit: Config.MissingKey: a Challenge belongs to status 401, not to %d", m.Status)
	case m.Challenge == "":
		return nil
	}
	if c := m.Challenge[0] | 0x20; c < 'a' || c > 'z' || strings.ContainsFunc(m.Challenge, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("weblimit: Config.MissingKey: %q is not a challenge, want one such as Basic realm=\"api\"", m.Challenge)
	}
	return nil
}

// missing is what a request lacks whose key is missing. A Decision keeps it where that of
// other requests has its RateLimit field, in one string: what is missing, and behind a line
// break the challenge if it is a credential.
func missingOf(what, challenge string) string {
	if challenge == "" {
		return what
	}
	return what + "\n" + challenge
}

// Missing names what the request lacks, such as "API key" or "X-Tenant header", if the
// reason is [ReasonMissingKey]. It holds nothing that the client sent. It is "" for other
// reasons.
func (d *Decision) Missing() string {
	if d.Reason != ReasonMissingKey {
		return ""
	}
	what, _, _ := strings.Cut(d.what, "\n")
	return what
}

// missingKeyAnswer returns status and challenge of a denial for a missing key.
func (d *Decision) missingKeyAnswer() (status int, challenge string) {
	var answer MissingKeyAnswer
	if d.limiter != nil {
		answer = d.limiter.missingKey
	}
	_, challenge, credential := strings.Cut(d.what, "\n")
	switch {
	case answer.Status != 0:
		return answer.Status, answer.Challenge
	case !credential:
		return statusBadRequest, ""
	case answer.Challenge != "":
		challenge = answer.Challenge
	}
	return statusUnauthorized, challenge
}

// setChallenge sets WWW-Authenticate on a 401. That of authentication in front of the
// limiter stays.
func (d *Decision) setChallenge(h Header) {
	if _, challenge := d.missingKeyAnswer(); challenge != "" && h.Get(headerAuthenticate) == "" {
		h.Set(headerAuthenticate, challenge)
	}
}

// statusTitles are the titles of problems without a type of their own: the phrases of
// RFC 9110.
var statusTitles = map[int]string{
	statusBadRequest:   "Bad Request",
	statusUnauthorized: "Unauthorized",
	403:                "Forbidden",
	404:                "Not Found",
	422:                "Unprocessable Content",
	428:                "Precondition Required",
}
