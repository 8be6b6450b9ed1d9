package core

import "github.com/weblimit/weblimit/keyfuncs"

// MissingKey says what a limit does with a request without its key; see
// [Limit.OnMissingKey]. An ambiguous key, such as two different API keys, is not a
// missing one: the request is denied with [ReasonAmbiguousKey] and status 400, whatever
// is set here.
type MissingKey uint8

const (
	// ShareBucket charges all requests without the key to one bucket. [Limit.Penalty]
	// never blocks that bucket.
	ShareBucket MissingKey = iota
	// DenyRequest denies them with [ReasonMissingKey]: with status 401 and a
	// WWW-Authenticate header if the key is a credential (an API key, or the user or tenant
	// that authentication has stored), and with status 400 if not. The body names what is
	// missing, such as "X-Tenant header". Config.MissingKey changes the answer.
	DenyRequest
	// SkipLimit does not apply this limit to them. Other limits still do.
	SkipLimit
)

func (m MissingKey) valid() bool { return m <= SkipLimit }

// OnMissingKey says what happens to a request without the key, such as one without an
// API key. Defaults to ShareBucket.
func (l Limit) OnMissingKey(m MissingKey) Limit {
	l.settings.set(setMissing)
	l.missing = m
	return l
}

// lacking reports whether a request that has not one key under the limit is checked in the bucket of those without. If not,
// it returns the reason for a denial, or ReasonUndecided if the limit does not apply.
func (l *limit) lacking(presence keyfuncs.Presence) (shares bool, _ Reason) {
	switch {
	case presence == keyfuncs.Ambiguous:
		return false, ReasonAmbiguousKey
	case l.missing == DenyRequest:
		return false, ReasonMissingKey
	}
	return l.missing == ShareBucket, ReasonUndecided
}

// missingKey is the key of the bucket that requests without a key share. No key function makes
// it, and neither does AllowKey: their keys are printable.
const missingKey = "missing\x00"
