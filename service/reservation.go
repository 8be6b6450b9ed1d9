package service

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/flat"
)

// reservation is what a call has charged, for a settlement. All of it is in the token that the caller
// keeps, so that any process can settle it, and none has to remember it. The numbers of each limit are in it,
// too, since the policy may have others by the time it is settled, and what was charged by the old ones is
// corrected by them.
type reservation struct {
	at      time.Time // of the charge
	sealed  time.Time // of this token: it expires after Config.ReservationTTL
	first   []byte    // the ID of the first token, if this one renews it: all of them are settled once
	charges []chargesOf
}

// chargesOf are the charges by one policy.
type chargesOf struct {
	policy string
	held   []compose.Held
}

// The first byte. Another order of fields needs another: processes of two versions settle each other's reservations while
// a release is rolled out. So one has the first format that holds what it needs, which older processes read.
const (
	reservationFormat = 2
	debtFormat        = 3 // also with the numbers of the debt
	shareFormat       = 4 // all numbers, and the share of each charge
)

// format returns the format that a reservation needs, and how many numbers of each rule that has.
func (v *reservation) format() (first byte, numbers int) {
	first, numbers = reservationFormat, flat.Before
	for i := range v.charges {
		for k := range v.charges[i].held {
			switch r := &v.charges[i].held[k].Rule; {
			case r.Divided:
				return shareFormat, flat.Length
			case r.HasDebt:
				first, numbers = debtFormat, flat.WithDebt
			}
		}
	}
	return first, numbers
}

// isSpare stands in the place of Held.Estimate for a Held that is a spare one.
const isSpare = 2

var errReservation = errors.New("a reservation of another version")

// append appends the reservation as binary: whole numbers as varints, texts with their length.
func (v *reservation) append(dst []byte) []byte {
	format, numbers := v.format()
	w := writer{append(dst, format), numbers}
	w.int(v.at.UnixMicro())
	w.int(v.sealed.UnixMicro())
	w.text(v.first)
	w.int(int64(len(v.charges)))
	for i := range v.charges {
		of := &v.charges[i]
		w.text([]byte(of.policy))
		w.int(int64(len(of.held)))
		for k := range of.held {
			w.held(&of.held[k])
		}
	}
	return w.out
}

// read reads what append has written.
func (v *reservation) read(text []byte) error {
	r := reader{numbers: flat.Before}
	switch {
	case len(text) > 0 && text[0] == reservationFormat:
	case len(text) > 0 && text[0] == debtFormat:
		r.numbers = flat.WithDebt
	case len(text) > 0 && text[0] == shareFormat:
		r.numbers = flat.Length
	default:
		return errReservation
	}
	r.in = text[1:]
	v.at, v.sealed, v.first = time.UnixMicro(r.int()), time.UnixMicro(r.int()), r.text()
	for range r.count() {
		of := chargesOf{policy: string(r.text())}
		for range r.count() {
			h, err := r.held()
			if err != nil {
				return err
			}
			of.held = append(of.held, h)
		}
		v.charges = append(v.charges, of)
	}
	if r.bad || len(r.in) > 0 {
		return errReservation
	}
	return nil
}

type writer struct {
	out     []byte
	numbers int // of each rule
}

func (w *writer) int(n int64) { w.out = binary.AppendVarint(w.out, n) }

func (w *writer) bool(b bool) {
	n := int64(0)
	if b {
		n = 1
	}
	w.int(n)
}

func (w *writer) text(b []byte) {
	w.int(int64(len(b)))
	w.out = append(w.out, b...)
}

func (w *writer) held(h *compose.Held) {
	numbers := flat.Of(&h.Rule.Numbers)
	w.text([]byte(h.Rule.Name))
	for _, each := range numbers.Values[:w.numbers] {
		w.int(each)
	}
	w.text([]byte(numbers.Zone))
	w.int(h.Cost)
	w.int(h.Result.At)
	w.int(int64(h.Result.ResetAfter))
	if h.Spare { // in a place where the release before reads an estimate, and finds none: it settles nothing then
		w.int(isSpare)
	} else {
		w.bool(h.Estimate)
	}
	w.bool(h.Given)
	w.text(h.Key)
	w.text(h.Once)
	if w.numbers == flat.Length {
		w.share(h)
	}
}

// share writes the share of a charge: a weight of 0 for none.
func (w *writer) share(h *compose.Held) {
	n := h.Share
	if n == nil {
		w.int(0)
		return
	}
	w.int(n.Weight)
	w.int(n.Minimum)
	w.int(n.Maximum)
	w.int(int64(h.Result.Standing))
	w.text(n.Key)
	w.bool(n.User != nil)
	if n.User != nil {
		w.text(n.User)
	}
}

// reader reads what a writer has written. Once something is bad, it returns zeros. Tokens are sealed, so what
// it reads is ours, but a release with a mistake may have sealed it: it checks every length all the same.
type reader struct {
	in      []byte
	bad     bool
	numbers int // of each rule
}

func (r *reader) int() int64 {
	n, size := binary.Varint(r.in)
	if size <= 0 {
		r.bad, r.in = true, nil
		return 0
	}
	r.in = r.in[size:]
	return n
}

// count reads the length of a list.
func (r *reader) count() int {
	n := r.int()
	if n < 0 || n > int64(len(r.in)) { // each takes a byte at least, so that a count asks for no more memory than the text has
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) text() []byte {
	n := r.count()
	text := r.in[:n:n]
	r.in = r.in[n:]
	return text
}

// share reads what writer.share has written.
func (r *reader) share(h *compose.Held) {
	weight := r.int()
	if weight == 0 {
		return
	}
	n := &store.Share{Weight: weight, Minimum: r.int(), Maximum: r.int()}
	standing := r.int()
	if n.Key = r.text(); r.int() == 1 {
		n.User = r.text()
	}
	if standing < 0 || standing > int64(store.OverMaximum) {
		r.bad = true
		return
	}
	h.Share, h.Result.Standing = n, store.Standing(standing)
}

func (r *reader) held() (h compose.Held, err error) {
	name := string(r.text())
	var written flat.Numbers
	for i := range r.numbers {
		written.Values[i] = r.int()
	}
	written.Zone = string(r.text())
	h.Cost, h.Result.At, h.Result.ResetAfter = r.int(), r.int(), time.Duration(r.int())
	estimate := r.int()
	h.Estimate, h.Spare, h.Given = estimate == 1, estimate == isSpare, r.int() == 1
	h.Key = r.text()
	if once := r.text(); len(once) > 0 {
		h.Once = once
	}
	if r.numbers == flat.Length {
		r.share(&h)
	}
	if r.bad {
		return h, errReservation
	}
	local := written.Zone == time.Local.String()
	if local { // that of this machine, as of the one that sealed it: else they would count in different periods
		written.Zone = ""
	}
	numbers, err := written.Numbers()
	if err != nil {
		return h, err
	}
	if local {
		numbers.Calendar.Location = time.Local
	}
	h.Result.Allowed, h.Result.Charged = true, true
	h.Rule, err = store.NewRule(name, numbers)
	return h, err
}
