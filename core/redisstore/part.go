package redisstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
)

// operation is what the script is asked to do.
type operation byte

const (
	take   operation = 't'
	peek   operation = 'p'
	charge operation = 'c'
	refund operation = 'r'
	reset  operation = 'x'
)

// part is what a request asks of one slot: one group of the script. Its owner
// makes it, puts it on its way with a node, and reads the answer once it has
// landed. Until then others may read it, even after the owner has given up:
// then it is not used again.
type part struct {
	op     operation
	slot   int
	checks []int    // which of the request's checks
	group  int      // how much of data is the group; the keys follow
	data   []byte   // the group as the script reads it, and the keys
	keys   []int    // where each key ends in data
	tags   [][]byte // the client keys, until the part is sealed

	hash   uint64 // of all of it, for parts that can be decided together
	equal  bool   // it can be decided together with equal ones
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
	p.op, p.slot, p.leads, p.equal = op, slot, true, op == take || op == peek
	p.data = append(p.data[:0], byte(op), 0, 0, 0, 0, 0) // times and base are the flight's
	return p
}

// release gives the part back for reuse, unless its owner gave up: then a flight
// may still have it.
func (p *part) release() {
	if p.state.Load() == abandoned {
		return
	}
	p.state.Store(idle)
	p.checks, p.keys = p.checks[:0], p.keys[:0]
	p.asking, p.reply, p.nth, p.err, p.flight = false, "", 0, nil, nil
	parts.Put(p)
}

// again prepares the part to be sent once more, by its owner.
func (p *part) again(asking bool) {
	p.state.Store(idle)
	p.asking, p.leads = asking, true
	p.reply, p.err, p.flight = "", nil, nil
}

const (
	groupHead = 6 // bytes of a group before its checks
	timesAt   = 1
	baseAt    = 3
)

// add adds a check of the request; charged is when it was charged, for a refund.
func (p *part) add(index int, check *core.Check, charged int64) {
	key := slices.IndexFunc(p.tags, func(tag []byte) bool { return bytes.Equal(tag, check.Key) })
	if key < 0 {
		key = len(p.tags)
		p.tags = append(p.tags, check.Key)
	}
	p.checks = append(p.checks, index)
	p.data[groupHead-1]++
	p.data = appendCheck(p.data, key+1, check, charged)
	p.equal = p.equal && check.Rule.Algorithm != core.SlidingLog // whose reading does not tell what the next one sees
}

// seal adds the keys. From then on the part needs nothing of the request.
func (p *part) seal(prefix string) {
	p.group = len(p.data)
	for i, tag := range p.tags {
		p.data = appendKey(p.data, prefix, tag)
		p.keys = append(p.keys, len(p.data))
		p.tags[i] = nil
	}
	p.tags = p.tags[:0]
	if p.equal {
		p.hash = maphash.Bytes(hashSeed, p.data)
	}
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
	return p.hash == q.hash && p.op == q.op && bytes.Equal(p.data[groupHead-1:], q.data[groupHead-1:])
}

const checkReply = 2 + 4*7

// answer fills in the results of the part's checks.
func (p *part) answer(checks []core.Check, results []core.Result) error {
	if len(p.reply) != checkReply*len(p.checks) {
		return &core.StoreError{Class: core.ErrorUnknown, Err: fmt.Errorf("script replied %d bytes to %d checks", len(p.reply), len(p.checks))}
	}
	granted := int(^uint(0) >> 1) // how many equal parts were
	for n, i := range p.checks {
		if fits := p.fits(n); fits < granted && !checks[i].Shadow {
			granted = fits
		}
	}
	for n, i := range p.checks {
		results[i] = p.result(n, &checks[i], granted)
	}
	return nil
}

// fits returns how many equal parts the check of a number fits by itself.
func (p *part) fits(n int) int {
	r := p.reply[n*checkReply:]
	return int(r[0])<<8 | int(r[1])
}

func (p *part) result(n int, check *core.Check, granted int) core.Result {
	reading := core.Reading{At: p.at}
	for k := range reading.Numbers {
		reading.Numbers[k] = get7(p.reply[n*checkReply+2+7*k:])
	}
	rule, cost := check.Rule, check.Cost
	switch p.op {
	case charge, refund, reset:
		reading.Charged = p.op == charge
		return rule.Result(0, reading)
	case peek:
		return rule.Result(cost, reading)
	}
	fits := p.fits(n)
	charged := p.nth < granted && p.nth < fits
	if rule.Algorithm != core.SlidingLog { // else the reading is what it is
		before := min(p.nth, granted, fits) // equal parts that were charged before
		if charged {
			before++
		}
		if cost > 0 && before > 0 {
			reading = rule.After(reading, int64(before)*cost)
		}
	}
	reading.Charged = charged
	return rule.Result(cost, reading)
}

// maxCost is what the script takes for any larger cost: no limit holds as much,
// and no product of it is too large to compare.
const maxCost = 1 << 52

// appendCheck writes a check as the script reads it: see scripts/limits.lua.
func appendCheck(dst []byte, key int, check *core.Check, charged int64) []byte {
	scale := check.Rule.Scale()
	shadow := byte(0)
	if check.Shadow {
		shadow = 1
	}
	dst = append(dst, byte(key), shadow)
	dst = binary.BigEndian.AppendUint32(dst, check.Rule.ID())
	dst = append(dst, byte(check.Rule.Algorithm))
	dst = binary.BigEndian.AppendUint32(dst, uint32(scale.Tick))
	dst = append7(dst, scale.Unit)
	dst = append7(dst, scale.Rate)
	dst = append7(dst, scale.Capacity)
	dst = append7(dst, min(check.Cost, maxCost))
	dst = append7(dst, check.Rule.Offset(check.Key))
	dst = append7(dst, charged)
	return appendForm(dst, check.Rule.Algorithm, scale)
}

// appendForm writes what must be known of a rule to read its stored state later,
// behind its length.
func appendForm(dst []byte, algorithm core.Algorithm, scale core.Scale) []byte {
	tick := byte(0)
	switch scale.Tick {
	case 1000:
		tick = 1
	case 1_000_000:
		tick = 2
	}
	start := len(dst)
	dst = append(dst, 0, byte(algorithm)<<4|tick, 0)
	dst = appendMinimal(dst, scale.Unit)
	unit := len(dst) - start - 3
	if scale.Rate > 1 {
		dst = appendMinimal(dst, scale.Rate)
	}
	rate := len(dst) - start - 3 - unit
	dst[start], dst[start+2] = byte(len(dst)-start-1), byte(unit<<4|rate)
	return dst
}

// appendMinimal writes n > 0 big-endian in as few bytes as it takes.
func appendMinimal(dst []byte, n int64) []byte {
	shift := 48
	for n>>shift == 0 {
		shift -= 8
	}
	for ; shift >= 0; shift -= 8 {
		dst = append(dst, byte(n>>shift))
	}
	return dst
}

func append7(dst []byte, n int64) []byte {
	return append(dst, byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func get7(s string) int64 {
	_ = s[6]
	return int64(s[0])<<48 | int64(s[1])<<40 | int64(s[2])<<32 | int64(s[3])<<24 | int64(s[4])<<16 | int64(s[5])<<8 | int64(s[6])
}
