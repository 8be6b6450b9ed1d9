package top

import (
	"math"
	"slices"
	"time"
)

// Use is how much single clients use of a limit: a sample of all clients with the use of each
// in its busiest window of the last 12 to 24 hours. Clients are chosen for the sample by a
// keyed hash, all with the same probability, and one that is in it is counted exactly,
// denied requests included. All instances choose the same clients.
type Use struct {
	// Window is how long the windows are in which use is counted: that of the limit.
	Window time.Duration

	// Peaks are what the clients of the sample used in their busiest window, in units of the
	// limit, ascending. Of a limit over several instances, a client's peaks are added up,
	// though they may be of different windows: a peak is never too low, and too high
	// if the client's requests moved from one instance to another.
	Peaks []int64

	// Clients is how many clients there were: exact if all of them are in the sample,
	// otherwise estimated.
	Clients int64

	ids   []uint64 // of the sample: the first 48 bits of hashes. ids[i] has sizes[i].
	sizes []int64
	level uint8  // the sample has one in 2^level clients
	group uint64 // which secret the hashes are of
	most  bool   // over instances, the highest peak of a client counts, not the sum
}

// Suggestion is a quota by which a share of the clients stays under a limit.
type Suggestion struct {
	// Quota is the smallest number that the share of clients did not exceed in any window.
	Quota int64

	// Low and High are where the number is with 95 % probability. They equal Quota if all
	// clients are in the sample.
	Low, High int64

	Window  time.Duration // that Quota is for
	Clients int64         // see Use
	Sampled int           // how many of them are in the sample
}

// Suggest returns the quota under which a share of all clients stays, such as 0.995 of them. It
// returns false if there are no clients yet, or if share is not from 0 to 1.
func (u *Use) Suggest(share float64) (s Suggestion, ok bool) {
	n := len(u.Peaks)
	if n == 0 || !(share >= 0 && share <= 1) {
		return Suggestion{}, false
	}
	at := func(rank float64) int64 {
		return u.Peaks[min(max(int(math.Ceil(rank))-1, 0), n-1)]
	}
	rank := share * float64(n)
	s = Suggestion{Quota: at(rank), Window: u.Window, Clients: u.Clients, Sampled: n}
	s.Low, s.High = s.Quota, s.Quota
	if int64(n) < u.Clients {
		// The rank is that of a binomial distribution.
		spread := 1.96 * math.Sqrt(float64(n)*share*(1-share))
		s.Low, s.High = at(rank-spread), at(rank+spread)
	}
	return s, true
}

// Share returns the share of clients that stay within a quota: the reverse of Suggest, to see
// what a number would mean. It is 1 if there are no clients.
func (u *Use) Share(quota int64) float64 {
	if len(u.Peaks) == 0 {
		return 1
	}
	within, _ := slices.BinarySearch(u.Peaks, quota+1)
	return float64(within) / float64(len(u.Peaks))
}
