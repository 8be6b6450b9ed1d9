package keyfuncs

import (
	"fmt"
	"sync"
)

// Percent holds for that percentage of all keys, and always for the same ones: on all
// instances, after restarts, and for as long as the key stays the same. With a higher
// percentage it holds for those keys and further ones. It is for enforcing a new limit for
// some clients first:
//
//	limit.When(keyfuncs.Percent(10, keyfuncs.User("user")))
//
// Take the limit's own key, so that all of a client's requests get the same answer. All
// conditions with the same key choose the same clients.
//
// Requests without the key count as one client together. If a request has the key several
// times the answer is [Unknown].
//
// Err reports a percentage that is neither 0 nor from 1 to 100, and the error of the key. So
// 0.05, which was meant to be 5 percent, is an error and not nearly nobody.
//
// # Security
//
// The choice is no secret: a client that can change its key finds one for which the condition
// does not hold. Enforce a limit against attackers for everybody at once.
func Percent(percent float64, key Func) Condition {
	if !(percent == 0 || percent >= 1 && percent <= 100) { // NaN, too
		err := fmt.Errorf("weblimit: keyfuncs.Percent: %v is neither 0 nor from 1 to 100", percent)
		if percent > 0 && percent < 1 {
			err = fmt.Errorf("%w; for %v of all clients write %v", err, percent, percent*100)
		}
		return Condition{err: err}
	}
	if err := key.Err(); err != nil {
		return Condition{err: err}
	}
	below := uint64(percent / 100 * percentSteps)
	return Condition{needs: key.Needs(), ask: func(r Request) Answer {
		buffer := percentBuffers.Get().(*[]byte)
		defer percentBuffers.Put(buffer)
		text, presence := key.Append((*buffer)[:0], r)
		*buffer = text[:0]
		switch {
		case presence == Ambiguous:
			return Unknown
		case spread(text)%percentSteps < below:
			return Yes
		}
		return No
	}}
}

// percentSteps is how finely percentages are told apart.
const percentSteps = 1_000_000

// percentBuffers are reused: each would be an allocation.
var percentBuffers = sync.Pool{New: func() any {
	buffer := make([]byte, 0, maxValue)
	return &buffer
}}

// spread returns a number that is spread evenly over keys, even where they differ only in their
// last digit: FNV-1a, and the last step of MurmurHash3. It must stay as it is, since instances of
// several versions run side by side.
func spread(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
