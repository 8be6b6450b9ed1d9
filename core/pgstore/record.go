package pgstore

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// A record's state is its layout's version, when it was last written (so that a process whose clock is behind does not
// decide before that), and the fields of the
// counting.Bucket, counting.Penalty, counting.Mark, counting.Division or counting.Part, as variable-length integers. Entries of a log
// follow their number, each with its distance in time from the one before. A penalty ends
// with its key, which the id may have as a hash only. Times are microseconds since the epoch.
// An empty state is that of a record which says nothing.
//
// A bucket whose key is blocked by hand has another version, and before its fields, if it has any, the two of the
// counting.ManualBlock, the length of the key, and the key. So what is hardly ever there costs nothing.

// The versions of states.
const (
	layout       = 1
	layoutManual = 2
)

// minute is the unit of pgstore_record.ends, in microseconds.
const minute = 60_000_000

// errLayout is about a state that this version of the package can't read.
var errLayout = errors.New("a record that this version of weblimit can't read")

// record is what a flight knows of a row. A flight has it alone.
type record struct {
	kind  kind
	group int

	row // version is 0 if there is no row, or none that the process knows

	// Read from state by open, and changed by jobs.
	at      int64 // when it was last written, by the server's clock
	bucket  counting.Bucket
	manual  counting.ManualBlock // of a bucket
	penalty counting.Penalty
	mark    counting.Mark
	key     []byte // of a penalty, or of a bucket's manual block
	dirty   bool   // to be written

	division counting.Division // of those who divide a limit, or a client's part
	part     counting.Part     // of one of them

	// What is written, if it is dirty.
	newVersion int64
	newState   []byte
	newEnds    int64
}

// open reads the state. After an error the record is as if there were no state.
func (r *record) open() error {
	r.clear()
	if err := r.read(); err != nil {
		r.clear()
		return err
	}
	return nil
}

func (r *record) clear() {
	r.at, r.bucket, r.penalty, r.mark, r.key, r.dirty = 0, counting.Bucket{}, counting.Penalty{}, counting.Mark{}, nil, false
	r.manual, r.division, r.part = counting.ManualBlock{}, counting.Division{}, counting.Part{}
}

func (r *record) read() error {
	if len(r.state) == 0 {
		return nil
	}
	manual := r.state[0] == layoutManual && r.kind == bucketRecord
	if r.state[0] != layout && !manual {
		return errLayout
	}
	d := decoder{rest: r.state[1:]}
	r.at = d.next()
	if manual {
		r.manual.Since, r.manual.Until = d.next(), d.next()
		r.key = d.bytes()
	}
	switch r.kind {
	case bucketRecord:
		if !manual || len(d.rest) > 0 {
			d.bucket(&r.bucket)
		}
	case penaltyRecord:
		for _, field := range penaltyFields(&r.penalty) {
			*field = d.next()
		}
		r.key = d.rest
	case markRecord:
		for _, field := range markFields(&r.mark) {
			*field = d.next()
		}
	case divisionRecord, usersRecord:
		d.counts(divisionFields(&r.division))
	case clientRecord, userRecord:
		d.part(&r.part)
	}
	if d.failed { // looked at once: after a failure next returns 0, which nothing can loop over
		return errLayout
	}
	return nil
}

// encode sets what is written.
func (r *record) encode(now int64) {
	ends := int64(0)
	b := binary.AppendVarint([]byte{layout}, now)
	switch r.kind {
	case bucketRecord:
		if r.manual.Until > now {
			ends = r.manual.Until
			b[0] = layoutManual
			b = binary.AppendVarint(binary.AppendVarint(b, r.manual.Since), r.manual.Until)
			b = append(binary.AppendVarint(b, int64(len(r.key))), r.key...)
		}
		if r.bucket.Unused() {
			break
		}
		ends = max(ends, r.bucket.KeptUntil())
		b = appendBucket(b, &r.bucket)
	case penaltyRecord:
		ends = r.penalty.Expires
		for _, field := range penaltyFields(&r.penalty) {
			b = binary.AppendVarint(b, *field)
		}
		b = append(b, r.key...)
	case markRecord:
		ends = r.mark.Expires
		for _, field := range markFields(&r.mark) {
			b = binary.AppendVarint(b, *field)
		}
	case divisionRecord, usersRecord:
		ends = r.division.Expires
		for _, field := range divisionFields(&r.division) {
			b = binary.AppendVarint(b, *field)
		}
	case clientRecord, userRecord:
		ends = r.part.Expires
		b = appendPart(b, &r.part)
	}
	if ends <= now {
		b, ends = []byte{}, now // nil would be NULL
	}
	r.newState, r.newEnds = b, ends/minute+1 // rounded up: a record that still counts is not swept
}

func penaltyFields(p *counting.Penalty) [5]*int64 {
	return [...]*int64{&p.Strikes, &p.Window, &p.Until, &p.Level, &p.Expires}
}

func markFields(m *counting.Mark) [3]*int64 { return [...]*int64{&m.At, &m.Expires, &m.Repeats} }

func appendBucket(b []byte, bucket *counting.Bucket) []byte {
	f := &bucket.Form
	for _, v := range [...]int64{int64(f.Algorithm), f.Tick, f.Unit, f.Rate, bucket.Expires, bucket.X, bucket.Y, int64(len(bucket.Log))} {
		b = binary.AppendVarint(b, v)
	}
	last := int64(0)
	for _, e := range bucket.Log {
		b = binary.AppendVarint(binary.AppendVarint(b, e.At-last), e.Units)
		last = e.At
	}
	return b
}

// decoder reads variable-length integers.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) next() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.failed = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// bytes reads a text that follows its length.
func (d *decoder) bytes() []byte {
	n := d.next()
	if n < 0 || n > int64(len(d.rest)) {
		d.failed = true
		return nil
	}
	text := d.rest[:n]
	d.rest = d.rest[n:]
	return text
}

func (d *decoder) bucket(b *counting.Bucket) {
	b.Form = counting.Form{Algorithm: store.Algorithm(d.next()), Tick: d.next(), Unit: d.next(), Rate: d.next()}
	b.Expires, b.X, b.Y = d.next(), d.next(), d.next()
	n := d.next()
	if n < 0 || n > int64(len(d.rest))/2 { // an entry has two bytes at least
		d.failed = true
		return
	}
	if n > 0 {
		b.Log = make([]counting.Entry, 0, n+1)
	}
	last := int64(0)
	for range n {
		last += d.next()
		b.Log = append(b.Log, counting.Entry{At: last, Units: d.next()})
	}
	if !known(b.Form) {
		d.failed = true
	}
}

// known reports whether the numbers of a bucket's rule are such that this package's
// arithmetic can use them.
func known(f counting.Form) bool {
	return slices.Contains(algorithms, f.Algorithm) && f.Tick > 0 && f.Unit > 0 && f.Rate > 0
}

var algorithms = counting.Algorithms()
