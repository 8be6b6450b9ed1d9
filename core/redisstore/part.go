package redisstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// operation is what the script is asked to do.
type operation byte

const (
	take operation = 1 + iota
	peek
	charge
	refund
	reset
	renew
)

// part is what a request asks of one slot: one group of the script. Its owner
// makes it, puts it on its way with a node, and reads the answer once it has
// landed. Until then others may read it, even after the owner has given up:
// then it is not used again.
type part struct {
	op     operation
	slot   int
	checks []int    // which of the request's checks, in the order of the group; ^i for the penalty of i; aHold
	spots  []spot   // where they are in data
	size   int      // of the answer
	group  int      // how much of data is the group; the keys follow
	data   []byte   // what is asked as the script reads it, and the keys
	keys   []int    // where each key ends in data
	tags   [][]byte // the client keys, until the part is sealed
	marks  []mark   // of checks whose operation is charged once, until then
	clock  int64    // of the process: by it the calendar windows are meant
	logs   *logs    // of the store
	work   int      // entries of logs that the script has to read, by estimate

	hash   uint64 // of all of it, for parts that can be decided together
	equal  bool   // it can be decided together with equal ones
	guards bool   // there are penalties in it that say what comes of checks
	judges bool   // it charges nothing, whatever fits: see judge
	holds  bool   // a take that leaves holds beside its charges: see hold
	leads  bool   // its owner waits for nothing else, and can lead a flight
	asking bool   // the slot is on its way to the node

	state  atomic.Int32
	landed chan struct{} // gets one signal when state is landed or leading
	timer  *time.Timer   // of the owner's wait
	flight *flight       // to be led by the owner

	// The answer, written by the flight before it lands.
	at    int64  // when it was decided: microseconds since the epoch
	reply string // what the script says of the group
	of    int    // its group in the flight
	nth   int    // how many equal parts were decided before this one
	err   error

	// What the owner has read in it.
	granted   bool // its checks were charged, as far as they are to be
	settled   bool // an enforced check does not fit
	unsettled bool // one does not fit that may in a moment: see isUnsettled
}

// A part is queued, and then taken along by a flight, or made to lead one. When
// its owner gives up before, it is abandoned.
const (
	idle int32 = iota
	queued
	flying
	leading
	landed
	abandoned
)

var parts = sync.Pool{New: func() any {
	return &part{landed: make(chan struct{}, 1)}
}}

var hashSeed = maphash.MakeSeed()

func newPart(op operation, slot int) *part {
	p := parts.Get().(*part)
	p.op, p.slot, p.leads, p.equal, p.size = op, slot, true, op == take || op == peek, 0
	p.guards, p.judges, p.holds = false, false, false
	p.logs, p.work = nil, 0
	p.granted, p.settled, p.unsettled = false, false, false
	p.data = append(p.data[:0], byte(op), 0, 0)
	return p
}

// release gives the part back for reuse, unless its owner gave up: then a flight
// may still have it.
func (p *part) release() {
	if p.state.Load() == abandoned {
		return
	}
	p.state.Store(idle)
	p.checks, p.spots, p.keys = p.checks[:0], p.spots[:0], p.keys[:0]
	p.forget()
	p.asking, p.reply, p.nth, p.err, p.flight = false, "", 0, nil, nil
	parts.Put(p)
}

// again prepares the part to be sent once more, by its owner.
func (p *part) again(asking bool) {
	p.state.Store(idle)
	p.asking, p.leads = asking, true
	p.reply, p.err, p.flight = "", nil, nil
}

// Where a group holds the number of its checks and of its keys.
const (
	checksAt = 1
	keysAt   = 2
)

// spot is where a check stands in a group.
type spot struct {
	key   int
	limit uint32
	at    int
}

// add adds a check of the request, and its penalty if the operation is about that,
// too; charged is when it was charged, for a refund or renewal. A check that can
// have a mark has been given it before, by remember.
func (p *part) add(index int, check *store.Check, charged int64) {
	s, n := p.spot(check.Key, check.Rule.ID())
	p.data = appendCheck(p.data, p.op, check, charged, p.markOf(index), p.clock)
	p.place(s, n, index, check.Rule.Algorithm)
	p.equal = p.equal && check.Rule.Algorithm != store.SlidingLog // whose reading does not tell what the next one sees
	if p.logs != nil && isLog(check.Rule) {
		p.work += p.logs.longest(check.Rule)
	}
	if check.Rule.Penalized() {
		p.guard(index, check)
	}
}

// spot returns the end of data as the place of a check that is written there next,
// and which of the spots it is: key by key, and of a key in the order in which its
// value holds the limits.
func (p *part) spot(tag []byte, limit uint32) (s spot, n int) {
	key := slices.IndexFunc(p.tags, func(known []byte) bool { return bytes.Equal(known, tag) })
	if key < 0 {
		key = len(p.tags)
		p.tags = append(p.tags, tag)
	}
	key += len(p.marks)
	n = len(p.spots)
	for n > 0 && (p.spots[n-1].key > key || p.spots[n-1].key == key && p.spots[n-1].limit > limit) {
		n--
	}
	if key == int(p.data[keysAt]) {
		p.data[keysAt]++
		p.data = append(p.data, 0)
	}
	return spot{key: key, limit: limit, at: len(p.data)}, n
}

// place moves what was written at the end of data to where it belongs.
func (p *part) place(s spot, n, index int, algorithm store.Algorithm) {
	end := s.at
	switch {
	case n == len(p.spots):
	case p.spots[n].key == s.key:
		s.at = p.spots[n].at
	default: // the last of its key, before the number of the next one's checks
		s.at = p.spots[n].at - 1
	}
	if s.at < end {
		length := len(p.data) - end
		rotate(p.data[s.at:], length)
		for i := n; i < len(p.spots); i++ {
			p.spots[i].at += length
		}
	}
	p.checks = slices.Insert(p.checks, n, index)
	p.spots = slices.Insert(p.spots, n, s)
	first, _ := slices.BinarySearchFunc(p.spots, s.key, func(s spot, key int) int { return s.key - key })
	p.data[p.spots[first].at-1]++
	p.data[checksAt]++
	p.size += replySize(p.op, algorithm)
}

// rotate brings the last n bytes to the front.
func rotate(b []byte, n int) {
	slices.Reverse(b)
	slices.Reverse(b[:n])
	slices.Reverse(b[n:])
}

// seal adds the keys. From then on the part needs nothing of the request.
func (p *part) seal(prefix string) {
	p.group = len(p.data)
	for i := range p.marks {
		p.data = p.marks[i].appendKey(p.data, prefix)
		p.keys = append(p.keys, len(p.data))
	}
	for _, tag := range p.tags {
		p.data = appendKey(p.data, prefix, tag)
		p.keys = append(p.keys, len(p.data))
	}
	p.forget()
	if p.equal {
		p.hash = maphash.Bytes(hashSeed, p.data)
	}
}

// forget lets go of what is the request's.
func (p *part) forget() {
	clear(p.tags)
	clear(p.marks)
	p.tags, p.marks = p.tags[:0], p.marks[:0]
}

// appendKey writes the Redis key that holds all limits of a client key. The
// braces make the client key its hash tag; it holds none itself.
func appendKey(dst []byte, prefix string, tag []byte) []byte {
	dst = append(dst, prefix...)
	dst = append(dst, '{')
	dst = append(dst, tag...)
	return append(dst, '}')
}

// key returns the part's key of a number.
func (p *part) key(n int) []byte {
	start := p.group
	if n > 0 {
		start = p.keys[n-1]
	}
	return p.data[start:p.keys[n]]
}

// same reports whether q asks for the same.
func (p *part) same(q *part) bool {
	return p.hash == q.hash && p.op == q.op && bytes.Equal(p.data, q.data)
}

// replySize returns the length of the script's answer to a check.
func replySize(op operation, algorithm store.Algorithm) int {
	return 1 + 7*replyNumbers(op, algorithm)
}

// replyNumbers returns how many numbers are in the script's answer to a check:
// its reading, and of a log that is taken from the one after, too.
func replyNumbers(op operation, algorithm store.Algorithm) int {
	switch {
	case algorithm == store.SlidingLog && op == take:
		return 8
	case algorithm == store.SlidingLog:
		return 4
	case algorithm == store.SlidingWindow:
		return 3
	case algorithm == penalty:
		return 1
	}
	return 2
}

// answer fills in the results of the part's checks.
func (p *part) answer(checks []store.Check, results []store.Result) error {
	if len(p.reply) != p.size {
		return &store.Error{Class: store.ClassUnknown, Err: fmt.Errorf("script replied %d bytes to %d checks", len(p.reply), len(p.checks))}
	}
	if p.guards {
		p.answerGuarded(checks, results)
		return nil
	}
	granted := int(^uint(0) >> 1) // how many equal parts were
	at := 0
	for _, i := range p.checks {
		if i == aHold {
			at += holdReply
			continue
		}
		if !checks[i].Shadow {
			granted = min(granted, p.fit(p.reply[at], &checks[i]))
		}
		at += replySize(p.op, checks[i].Rule.Algorithm)
	}
	if p.judges {
		granted = 0
	}
	p.granted = p.op == take && p.nth < granted
	reply := p.reply
	for _, i := range p.checks {
		if i == aHold {
			reply = reply[holdReply:]
			continue
		}
		size := replySize(p.op, checks[i].Rule.Algorithm)
		results[i] = p.result(reply[:size], &checks[i], granted, 0)
		reply = reply[size:]
	}
	return nil
}

// result reads the script's answer to a check: how many equal parts it fits by
// itself, and its reading; blocked is for how many microseconds its key is blocked.
func (p *part) result(reply string, check *store.Check, granted int, blocked int64) store.Result {
	rule, cost := check.Rule, check.Cost
	fits := int(reply[0] &^ unsettledBit)
	again := check.Once != nil && fits == repeated && (p.op == take || p.op == peek)
	charged := p.op == charge || p.op == renew || !again && p.op == take && p.nth < granted && p.nth < fits
	if rule.Algorithm == store.SlidingLog && p.op == take && charged {
		reply = reply[4*7:]
	}
	reading := store.Reading{At: p.at, Charged: charged, Blocked: blocked}
	for k := range min(replyNumbers(p.op, rule.Algorithm), len(reading.Numbers)) {
		reading.Numbers[k] = get7(reply[1+7*k:])
	}
	if p.logs != nil && isLog(rule) {
		p.logs.read(rule, reading.Numbers[0])
	}
	switch {
	case again:
		result := rule.Result(0, reading)
		result.Repeated = result.Allowed // or a block holds
		return result
	case p.op > peek:
		return rule.Result(0, reading)
	}
	if p.op == take && rule.Algorithm != store.SlidingLog { // else the reading is what it is
		before := min(p.nth, granted, fits) // equal parts that were charged before
		if charged {
			before++
		}
		if cost > 0 && before > 0 {
			reading = rule.After(reading, int64(before)*cost)
			reading.Charged = charged
		}
	}
	result := rule.Result(cost, reading)
	if !result.Allowed && p.isUnsettled(reply[0], check) {
		soon(&result)
	}
	return result
}

// maxCost is what the script takes for any larger cost: no limit holds as much,
// and no product of it is too large to compare.
const maxCost = 1 << 52

// appendCheck writes a check as the script reads it: see internal/script/lua. The
// number of its operation's mark is 0 if it has none. Calendar windows are those of now.
func appendCheck(dst []byte, op operation, check *store.Check, charged int64, mark int, now int64) []byte {
	scale, cost := check.Rule.Scale(), min(check.Cost, maxCost)
	if check.Rule.Algorithm == store.TokenBucket {
		if op <= peek && cost > check.Rule.Burst { // its queue may hold as much
			cost = maxCost
		}
		// In debt; beyond twice the capacity any is as good.
		cost = min(cost, 2*(scale.Whole/scale.Unit+1)) * scale.Unit
	}
	tick, per, offset := scale.Tick, scale.Unit, int64(0)
	switch check.Rule.Algorithm {
	case store.TokenBucket:
		per = scale.Rate
	case store.Calendar:
		tick, per, offset = check.Rule.Period(now)
		if op == refund {
			charged = check.Rule.PeriodEnd(charged)
		}
	default:
		offset = check.Rule.Offset(check.Key)
	}
	algorithm := byte(check.Rule.Algorithm)
	if check.Shadow {
		algorithm |= 1 << 7
	}
	lower := scale.Whole != scale.Capacity
	if lower {
		algorithm |= 1 << 5
	}
	if mark > 0 {
		algorithm |= 1 << 6
	}
	dst = append(dst, algorithm)
	for _, n := range [...]int64{tick, per, scale.Capacity, cost, offset} {
		dst = appendNumber(dst, n)
	}
	dst = appendHead(dst, check.Rule, scale)
	if op == refund || op == renew {
		dst = appendNumber(dst, charged)
	}
	if mark > 0 {
		dst = append(dst, byte(mark))
	}
	if lower {
		dst = appendNumber(dst, scale.Whole)
	}
	return dst
}

// appendHead writes what the rule's records begin with, behind its length: the
// limit, and what must be known of its numbers to read the record under others.
func appendHead(dst []byte, rule *store.Rule, scale store.Scale) []byte {
	tick := byte(0)
	switch scale.Tick {
	case 1000:
		tick = 1
	case 1_000_000:
		tick = 2
	}
	start := len(dst)
	dst = append(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, rule.ID())
	dst = append(dst, byte(rule.Algorithm)<<4|tick, 0)
	form := len(dst)
	dst = appendInt(dst, scale.Unit, bytesOf(scale.Unit))
	unit, width := len(dst)-form, 0
	switch {
	case rule.Algorithm == store.TokenBucket && scale.Rate > 1:
		width = fieldFor(scale.Rate)
		dst = appendInt(dst, scale.Rate, width)
	case rule.Algorithm == store.FixedWindow, rule.Algorithm == store.SlidingWindow, rule.Algorithm == store.Calendar:
		width = max(fieldFor(2*scale.Whole), 4)
	}
	dst[form-1] = byte(unit<<4 | width)
	dst[start] = byte(len(dst) - start - 1)
	return dst
}

// fieldFor returns the length of the field that holds numbers up to n.
func fieldFor(n int64) int {
	switch length := bytesOf(n); {
	case length <= 2:
		return length
	case length <= 4:
		return 4
	}
	return 7
}

// bytesOf returns how many bytes n > 0 takes.
func bytesOf(n int64) int { return (bits.Len64(uint64(n)) + 7) / 8 }

// appendInt writes n little-endian in so many bytes.
func appendInt(dst []byte, n int64, length int) []byte {
	for range length {
		dst = append(dst, byte(n))
		n >>= 8
	}
	return dst
}

// appendNumber writes n as Lua has it: reading doubles costs the script half of
// what integers do. All are below 2^53.
func appendNumber(dst []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(n)))
}

// get7 reads an integer of 7 bytes.
func get7(s string) int64 {
	_ = s[6]
	return int64(s[0]) | int64(s[1])<<8 | int64(s[2])<<16 | int64(s[3])<<24 | int64(s[4])<<32 | int64(s[5])<<40 | int64(s[6])<<48
}
