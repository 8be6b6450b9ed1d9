package store

// Share is a client's part of a limit that clients divide: see Check.Share and [Numbers].Shared.
type Share struct {
	Key     []byte // the client; valid during the call only
	User    []byte // who divides the client's part with its other users, evenly; nil for nobody. Valid during the call only
	Weight  int64  // how large the part is beside those of others, from 1 to MaxWeight
	Minimum int64  // units per window that are the client's whatever others do; 0 for none
	Maximum int64  // units per window that are the most for the client; 0 for no bound
}

// MaxWeight is the largest Share.Weight.
const MaxWeight = 1000
