package store

// Share is what a client's part of a limit is, if clients divide it: see Check.Share.
type Share struct {
	Key     []byte // the client; valid during the call only
	User    []byte // one of those who divide the client's part evenly; nil if they don't. Valid during the call only
	Weight  int64  // how large the part is beside those of others, from 1 to MaxWeight
	Minimum int64  // units per window that are the client's whatever others do, up to Rule.Guaranteed; 0 for none
	Maximum int64  // units per window that are the most for the client, up to Rule.Quota; 0 for no bound
}

// MaxWeight is the largest Share.Weight.
const MaxWeight = 1000

// Standing says how a client of a limit that clients divide stands to its share, when a request was decided.
type Standing uint8

// The standings.
const (
	Undivided   Standing = iota // clients don't divide the limit, or the request is free
	WithinShare                 // the request fits the client's share
	OverShare                   // it does not, and so had to leave a reserve to others
	OfMinimum                   // it fits Share.Minimum
	UserOver                    // it fits the client's share, of which its user is over an equal part; so it had to leave half to the others
	OverMaximum                 // it does not fit Share.Maximum, so it is denied
)

var standings = [...]string{"undivided", "within share", "over share", "of minimum", "user over share", "over maximum"}

// String returns words such as "over share".
func (s Standing) String() string {
	if int(s) >= len(standings) {
		return "unknown standing"
	}
	return standings[s]
}

// MarshalText returns the text of String.
func (s Standing) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// IsOver reports whether the client, or its user, is over its share.
func (s Standing) IsOver() bool { return s == OverShare || s == UserOver }

// Usual returns of how many units Remaining are the rest: of the burst of the result's rule, or of the client's share in it, since others
// may want what is beyond.
func (r *Result) Usual(rule *Rule) int64 {
	if r.Standing != Undivided {
		return min(rule.Burst, r.Share)
	}
	return rule.Burst
}
