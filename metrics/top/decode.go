package top

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// UnmarshalBinary decodes a snapshot that MarshalBinary has encoded. It accepts any bytes, of
// which it may refuse some with an error, and takes memory in proportion to them. Keys
// that it returns are printable ASCII, names of limits and instances are names, and no number is
// negative.
func (s *Snapshot) UnmarshalBinary(data []byte) error {
	d := decoder{left: data}
	out := d.snapshot(len(data))
	if d.err == nil && len(d.left) > 0 {
		d.fail("%d bytes too many", len(d.left))
	}
	if d.err != nil {
		return fmt.Errorf("weblimit: can't decode a snapshot of top clients: %w", d.err)
	}
	*s = out
	return nil
}

// decoder reads an encoding. After an error, which stays, it returns zeros.
type decoder struct {
	left   []byte
	err    error
	base   tick
	shares bool // denials have them
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.left = nil
}

func (d *decoder) snapshot(size int) (s Snapshot) {
	if size > maxEncoded {
		d.fail("it has %d bytes, more than %d", size, maxEncoded)
	}
	version := d.byte()
	if d.shares = version == sharesVersion; d.err == nil && version != encodingVersion && !d.shares {
		d.fail("its version is %d, known are %d and %d", version, encodingVersion, sharesVersion)
	}
	s.Uncounted = d.count()
	for range d.number(8) {
		s.Instances = append(s.Instances, Instance{d.name(), time.UnixMilli(d.count()), d.health(), d.versions()})
	}
	if len(s.Instances) == 0 {
		d.fail("it is of no instance")
		return s
	}
	d.base = tickOf(s.Instances[0].At)
	n := d.number(20)
	if n > maxLimits {
		d.fail("%d limits", n)
		return s
	}
	for range n {
		s.Limits = append(s.Limits, d.limit())
		if n := len(s.Limits); n > 1 && s.Limits[n-1].Name <= s.Limits[n-2].Name {
			d.fail("its limits are in no order")
		}
	}
	return s
}

func (d *decoder) limit() (l Limit) {
	l.Name, l.Algorithm = d.name(), store.Algorithm(d.byte())
	l.Quota, l.Burst, l.Window = d.count(), d.count(), d.duration()
	flags := d.byte()
	l.Shadow, l.Use.most = flags&flagShadow != 0, flags&flagMost != 0
	if flags > flagShadow|flagMost|flagKeys|flagBefore {
		d.fail("unknown flags")
	}
	if flags&flagKeys != 0 {
		l.Keys = d.ascii(maxKinds)
		if l.Keys == "" {
			d.fail("keys that are made of nothing")
		}
	}
	if flags&flagBefore != 0 {
		n := d.number(2)
		if n == 0 || n > maxBefore {
			d.fail("keys that were made of %d kinds before", n)
		}
		for range min(n, maxBefore) {
			l.KeysBefore = append(l.KeysBefore, d.ascii(maxKinds))
		}
	}
	l.Versions = d.versions()
	l.Numbers = d.numbers(&l)
	n := d.number(12)
	if n > 0 {
		l.Clients = make([]Client, 0, n)
	}
	seen := make(map[string]bool, n)
	for range n {
		c := d.client()
		if seen[c.Key] {
			d.fail("a client that is there twice")
		}
		seen[c.Key] = true
		l.Clients = append(l.Clients, c)
	}
	l.Rates = Rates{d.series(secondsStep), d.series(minutesStep)}
	d.use(&l.Use)
	return l
}

func (d *decoder) client() (c Client) {
	c.Key = d.ascii(maxKey)
	if c.Key == "" {
		d.fail("a client without a key")
	}
	for _, counts := range [...]*Counts{&c.Minute, &c.Hour} {
		*counts = Counts{Requests: d.count(), Denied: d.count(), WouldDeny: d.count()}
	}
	used := d.count()
	if used > millionths {
		d.fail("more than all of a limit is used")
	}
	c.Used, c.UsedAt, c.Seen = float64(used)/millionths, d.time(), d.time()
	c.Denial = d.denial()
	return c
}

func (d *decoder) denial() (out Denial) {
	out.Reason = core.Reason(d.byte())
	if out.Reason == core.ReasonUndecided {
		return out
	}
	out.Shadow = d.byte() == 1
	out.At = d.time()
	out.Cost, out.Remaining, out.Quota, out.Burst = d.count(), d.count(), d.count(), d.count()
	out.Window, out.RetryAfter = d.duration(), d.duration()
	out.Version = d.version()
	if d.shares {
		out.Standing, out.Share = store.Standing(d.byte()), d.count()
		if out.Standing > store.OverMaximum {
			d.fail("an unknown standing")
		}
	}
	return out
}

// versions reads versions, which are in order.
func (d *decoder) versions() (all []string) {
	n := d.number(2)
	if n > maxVersions {
		d.fail("%d versions", n)
		return nil
	}
	for i := range n {
		version := d.version()
		if d.err == nil && (version == "" || i > 0 && version <= all[i-1]) {
			d.fail("versions in no order")
		}
		all = append(all, version)
	}
	return all
}

func (d *decoder) version() string {
	version := d.text(maxVersionBytes)
	if d.err == nil && version != printableVersion(version) {
		d.fail("a version that is not printable")
	}
	return version
}

func (d *decoder) series(step tick) Series {
	s := Series{Step: step.duration()}
	n := d.number(3)
	if n == 0 {
		return s
	}
	if n > seriesSteps {
		d.fail("a series of %d steps", n)
		return s
	}
	s.Start = tick(min(d.count(), maxSteps) * int64(step)).time()
	s.Allowed, s.Denied, s.WouldDeny = make([]int64, n), make([]int64, n), make([]int64, n)
	for i := range n {
		s.Allowed[i], s.Denied[i], s.WouldDeny[i] = d.count(), d.count(), d.count()
	}
	return s
}

// maxSteps keeps times within what time.Time and Duration can tell apart: the year 2262.
const maxSteps = 1 << 33

// use reads a sample. Its ids ascend, and begin with the zeros of its level: so no snapshot names a client twice, or one that
// its level leaves out, and Merge need not look for either.
func (d *decoder) use(u *Use) {
	u.level = d.byte()
	if u.level > 64-idShift {
		d.fail("one in 2^%d clients", u.level)
	}
	if group := d.bytes(8); len(group) == 8 {
		u.group = binary.LittleEndian.Uint64(group)
	}
	u.Window = d.duration()
	n := d.number(2)
	u.ids, u.sizes = make([]uint64, 0, n), make([]int64, 0, n)
	last := uint64(0)
	for range n {
		id := last + d.uvarint()
		if d.err == nil && (id < last || id == last && len(u.ids) > 0 || bits.LeadingZeros64(id) < idShift+int(u.level)) {
			d.fail("a sample in no order")
		}
		u.ids, u.sizes = append(u.ids, id), append(u.sizes, d.count())
		last = id
	}
	u.ids, u.sizes = slices.Clip(u.ids), slices.Clip(u.sizes)
	u.sumUp()
}

var errShort = errors.New("it ends too early")

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.left)
	if size <= 0 {
		if d.err == nil {
			d.err = errShort
		}
		d.left = nil
		return 0
	}
	d.left = d.left[size:]
	return n
}

// maxCount bounds all numbers, and their sums.
const maxCount = 1 << 53

// count reads a number. One that is too large becomes the largest.
func (d *decoder) count() int64 { return int64(min(d.uvarint(), maxCount)) }

// duration reads a duration. Windows can be 100 years long.
func (d *decoder) duration() time.Duration { return time.Duration(min(d.uvarint(), 1<<62)) }

// number reads how many elements follow, of which each has at least some bytes.
func (d *decoder) number(least int) int {
	n := d.uvarint()
	if n > uint64(len(d.left)/least) {
		d.fail("%d elements in %d bytes", n, len(d.left))
		return 0
	}
	return int(n)
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.left) {
		if d.err == nil {
			d.err = errShort
		}
		d.left = nil
		return nil
	}
	b := d.left[:n]
	d.left = d.left[n:]
	return b
}

func (d *decoder) text(most int) string {
	n := d.uvarint()
	if n > uint64(most) {
		d.fail("a text of %d bytes", n)
		return ""
	}
	return string(d.bytes(int(n)))
}

// ascii decodes a text of printable ASCII.
func (d *decoder) ascii(most int) string {
	s := d.text(most)
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			d.fail("a text with what is no printable ASCII")
			break
		}
	}
	return s
}

func (d *decoder) name() string {
	s := d.text(64)
	if d.err == nil && !isName(s) {
		d.fail("%q is no name", s)
	}
	return s
}

func (d *decoder) time() time.Time {
	switch n := min(d.uvarint(), 1<<40); n {
	case 0:
		return time.Time{}
	default:
		return max(d.base-tick(n-1), 1).time()
	}
}
