package script

import (
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// Answer is the script's answer to one check.
type Answer string

// Repeated is what Fits returns for a check whose operation was charged before.
const Repeated = 2

// tentativeBit flags an answer: not all of what was asked fits, and the key has a hold.
const tentativeBit = 1 << 7

// Fits returns how many equal requests the check fits by itself.
func (a Answer) Fits() int { return int(a[0] &^ tentativeBit) }

// Tentative reports that some of them do not fit while the key has a hold, so that a
// denial may be over in a moment.
func (a Answer) Tentative() bool { return a[0]&tentativeBit != 0 }

// Number returns a number of the check's [counting.Reading], or of a penalty the
// microseconds until its block ends.
func (a Answer) Number(n int) int64 { return get7(string(a[1+7*n:])) }

// answerLength returns the length of the answer to a check.
func answerLength(op Op, algorithm store.Algorithm) int {
	n := Numbers(algorithm)
	if hasBoth(op, algorithm) {
		n *= 2
	}
	if tellsCharged(op, algorithm) {
		n++
	}
	return 1 + 7*n
}

// tellsCharged reports whether the last number of an answer is what a charge has added to the bucket.
func tellsCharged(op Op, algorithm store.Algorithm) bool {
	return op == Charge && algorithm != counting.PenaltyRecord && algorithm != counting.ManualRecord
}

// Forgiven returns how many units of a charge's cost were not charged, rounded up.
func (a Answer) Forgiven(check *store.Check) int64 {
	charged := a.Number(Numbers(check.Rule.Algorithm) + sharesOf(check))
	if check.Rule.Algorithm == store.TokenBucket {
		charged /= check.Rule.Integers.Unit
	}
	return check.Cost - min(charged, check.Cost)
}

// Numbers returns how many numbers the reading of an algorithm has.
func Numbers(algorithm store.Algorithm) int {
	switch algorithm {
	case store.SlidingLog, store.Ledger:
		return 4
	case store.SlidingWindow:
		return 3
	case counting.PenaltyRecord:
		return 1
	}
	return 2
}

// hasBoth reports whether the answer has two readings, before the check is charged and after:
// the reading of a log after a charge can't be computed from the one before.
func hasBoth(op Op, algorithm store.Algorithm) bool {
	return op == Take && algorithm == store.SlidingLog
}

// After returns the answer with the reading after the check was charged, if the answer has
// two; otherwise it returns a. Only Number may be called on the result.
func (a Answer) After(op Op, algorithm store.Algorithm) Answer {
	if hasBoth(op, algorithm) {
		return a[7*Numbers(algorithm):] // the first byte is no longer the count
	}
	return a
}

// CheckLength returns an error if an answer to the group has the wrong length.
func (g *Group) CheckLength(answer string) error {
	if whole, _ := g.IsWhole(answer); !whole && len(answer)-bars(answer) != g.answer {
		return fmt.Errorf("script replied %d bytes to %d checks", len(answer), len(g.Checks))
	}
	return nil
}

// Cut splits what is left of the answer to the group into the answer to check i, the next of
// g.Checks, and the rest.
func (g *Group) Cut(left string, i int, checks []store.Check) (a Answer, rest string) {
	algorithm := counting.PenaltyRecord
	switch {
	case i == Hold:
		algorithm = holdAlgorithm
	case i >= 0:
		algorithm = checks[i].Rule.Algorithm
	}
	n := answerLength(g.Op, algorithm)
	if i >= 0 && g.Op <= Reset {
		n += 7 * sharesOf(&checks[i])
	}
	return Answer(left[:n]), left[n:]
}

// Reply is what the script returns for a call: the time, and the answer to each group.
type Reply struct {
	Now  int64 // microseconds since the epoch
	rest string
}

// barredGroup is how the script says that keys of checks in the group are blocked by hand. The answer to a check
// does not begin so: at most 126 requests fit.
const barredGroup = 127

// barLength is the length of what the script says of each of them.
const barLength = 2 + 7

// bars returns how many bytes before an answer say which keys are blocked by hand.
func bars(answer string) int {
	if len(answer) < 2 || answer[0] != barredGroup {
		return 0
	}
	return 2 + barLength*int(answer[1])
}

// CutBars splits an answer, after CheckLength, into what says which keys are blocked by hand, "" if none is, and
// the answers to the checks.
func (g *Group) CutBars(answer string) (barred Bars, rest string) {
	n := bars(answer)
	if n == 0 {
		return "", answer
	}
	return Bars(answer[2:n]), answer[n:]
}

// Bars says which checks of a group are of keys that are blocked by hand.
type Bars string

// For returns for how many microseconds the check is barred whose answer is so many bytes behind that
// to the first one.
func (b Bars) For(at int) int64 {
	for ; len(b) >= barLength; b = b[barLength:] {
		if int(b[0])|int(b[1])<<8 == at {
			return get7(string(b[2:]))
		}
	}
	return 0
}

// failedGroup is how the script says that a group could not be decided.
const failedGroup = 255

var errCutShort = errors.New("the script's reply is cut short")

// ReadReply reads the beginning of a reply.
func ReadReply(reply string) (Reply, error) {
	if len(reply) < 7 {
		return Reply{}, errCutShort
	}
	return Reply{Now: get7(reply), rest: reply[7:]}, nil
}

// Next returns the answer to the next group, or the text of the error because of which the
// group was not decided. The answer shares the reply's memory.
func (r *Reply) Next(g *Group) (answer, failure string, err error) {
	n := g.answer
	failed := len(r.rest) >= 3 && r.rest[0] == failedGroup
	switch {
	case failed:
		n = 3 + (int(r.rest[1]) | int(r.rest[2])<<8)
	case len(r.rest) > 0 && r.rest[0] == wholeGroup:
		n = g.whole
	default:
		n += bars(r.rest)
	}
	if n > len(r.rest) {
		return "", "", errCutShort
	}
	answer, r.rest = r.rest[:n], r.rest[n:]
	if failed {
		return "", answer[3:], nil
	}
	return answer, "", nil
}

// get7 reads an integer of 7 bytes.
func get7(s string) int64 {
	_ = s[6]
	return int64(s[0]) | int64(s[1])<<8 | int64(s[2])<<16 | int64(s[3])<<24 | int64(s[4])<<32 | int64(s[5])<<40 | int64(s[6])<<48
}
