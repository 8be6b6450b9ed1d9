package script

import (
	"math"
	"strconv"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// A plain take is one of token buckets of one key, with nothing beside them: most takes are.
// lua/plain.lua decides most of them at once, and answers with the value as it was, or with the state
// of the only record. Of several buckets it is sent how such a value is read and written.

// isPlain is added to the operation of a plain take.
const isPlain = 1 << 6

// wholeGroup is how the script says that it has decided a plain take at once. A byte follows that
// says whether its requests are granted, and the value, or the state of its only record. The answer to a
// check does not begin so: of 126 requests that fit, none is denied tentatively.
const wholeGroup = 254

// wholeHead is the length of these two bytes.
const wholeHead = 2

// Where the cost and the head of its record are in a check.
const (
	costAt = 1 + 3*8
	headAt = 1 + 5*8
)

// endPlain says of a plain take that it is one. Of several buckets it writes how the value is read. It does
// nothing in other groups.
func (g *Group) endPlain() {
	if g.data[0] != byte(Take) || g.data[keysAt] != 1 {
		return
	}
	for _, p := range g.places {
		check := g.data[p.at:]
		free := string(check[costAt:headAt-8]) == "\x00\x00\x00\x00\x00\x00\x00\x00"
		if check[0] != byte(store.TokenBucket) || free {
			return
		}
	}
	if len(g.places) == 1 {
		g.whole = wholeHead + stateLength(g.data[g.places[0].at:])
	} else if !g.endLayout() {
		return
	}
	g.data[0] = byte(Take) | isPlain
}

// endLayout writes how the value of several buckets is read, unless that is too long.
func (g *Group) endLayout() bool {
	start := len(g.data)
	g.data = append(g.data, "\x00<c1"...)
	g.whole = wholeHead + len("\x02")
	for _, p := range g.places {
		check := g.data[p.at:]
		head, state := check[headAt], stateLength(check)
		g.whole += int(head) + state
		g.data = append(strconv.AppendUint(append(g.data, 'c'), uint64(head), 10), "I7"...)
		if state > 7 {
			g.data = append(g.data, 'I', '0'+byte(state-7))
		}
	}
	layout := len(g.data) - start - 1
	if layout > math.MaxUint8 {
		g.data, g.whole = g.data[:start], 0
		return false
	}
	g.data[start] = byte(layout)
	return true
}

// stateLength is the length of the state of a bucket, whose check begins what is given.
func stateLength(check []byte) int { return 7 + int(check[headAt+recordHead]&15) }

// IsWhole reports whether an answer is that to a plain take that was decided at once, and whether all
// its requests were granted. Else the only one was denied.
func (g *Group) IsWhole(answer string) (whole, granted bool) {
	whole = g.whole > 0 && len(answer) == g.whole && answer[0] == wholeGroup
	return whole, whole && answer[1] == 1
}

// Before yields, of a plain take that was decided at once, each of its checks with its bucket before it.
func (g *Group) Before(answer string, checks []store.Check) func(yield func(i int, bucket *counting.Bucket) bool) {
	return func(yield func(int, *counting.Bucket) bool) {
		left, one := answer[wholeHead:], len(g.places) == 1
		if !one {
			left = left[len("\x02"):]
		}
		for n, i := range g.Checks {
			check := g.data[g.places[n].at:]
			head := int(check[headAt])
			if one { // the value's head is left out
				head = 0
			}
			end := head + stateLength(check)
			ints := checks[i].Rule.Integers
			bucket := counting.Bucket{Form: counting.Form{Algorithm: store.TokenBucket, Tick: ints.Tick, Unit: ints.Unit, Rate: ints.Rate}}
			bucket.Expires = get7(left[head:])
			for at := end - 1; at >= head+7; at-- {
				bucket.X = bucket.X<<8 | int64(left[at])
			}
			if left = left[end:]; !yield(i, &bucket) {
				return
			}
		}
	}
}
