package service

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/service/internal/described"
	"github.com/weblimit/weblimit/service/internal/strict"
)

// maxReservation bounds the token of a reservation, in characters.
const maxReservation = 32 << 10

// appendReservation adds the token of what was charged to an answer, which is an object: after a reserve, and after
// a check that holds if something may change until its request has ended.
func (s *Service) appendReservation(answer []byte, c *call, asks []compose.Ask, reserve bool) ([]byte, error) {
	wanted := reserve || c.hold && changes(asks)
	if !wanted || !asks[0].Decision.Allowed {
		return answer, nil
	}
	now := time.Now()
	v := reservation{at: now, sealed: now}
	for i := range asks {
		if len(asks[i].Held) > 0 {
			v.charges = append(v.charges, chargesOf{c.checks[i].policy, asks[i].Held})
		}
	}
	token, err := s.sealed(&v, nil)
	if err != nil {
		return nil, err
	}
	return s.appendToken(answer[:len(answer)-1], &v, token), nil
}

// changes reports whether anything may change that was charged: by how the request ends, or since it waits for
// its turn and may leave.
func changes(asks []compose.Ask) bool {
	return slices.ContainsFunc(asks, func(q compose.Ask) bool {
		return len(q.Held) > 0 && (q.Unsettled || q.Delay > 0)
	})
}

// appendToken appends a token, until when it can be settled and when to renew it, and ends the object.
func (s *Service) appendToken(dst []byte, v *reservation, token string) []byte {
	dst = appendString(dst, "reservation", token)
	dst = appendMillis(dst, "renew_ms", s.renewIn(v))
	dst = appendString(dst, "settle_before", v.sealed.Add(s.config.ReservationTTL).UTC().Format(time.RFC3339))
	return append(dst, '}')
}

// sealed returns the token of a reservation, in place of the one with the salt before if that is not nil. If it fails, the caller gets an error and what was charged stays so:
// nobody has a token to give it back by.
func (s *Service) sealed(v *reservation, before []byte) (string, error) {
	token, err := s.seal.close(v.append(nil), before)
	if err == nil && len(token) > maxReservation {
		// Can't be: limits and keys are bounded. What was charged stays charged.
		err = errors.New("the reservation is too long")
	}
	return token, err
}

// settlement is the body of a settle or refund.
type settlement struct {
	token   string
	cost    int64
	hasCost bool
	costs   map[string]int64
	outcome core.Outcome
}

func readSettlement(r *strict.Reader, refund bool) (*settlement, error) {
	to := new(settlement)
	known := []string{"reservation", "cost", "costs", "outcome"}
	if refund {
		known = known[:1]
	}
	err := r.Object(func(name string) (err error) {
		if !slices.Contains(known, name) {
			return r.Unknown(known...)
		}
		switch name {
		case "reservation":
			to.token, err = r.Text(maxReservation)
		case "cost":
			to.cost, err = r.Int(0, described.MaxCost)
			to.hasCost = true
		case "costs":
			to.costs, err = readCosts(r)
		case "outcome":
			err = r.Object(func(name string) (err error) {
				switch name {
				case "status":
					var status int64
					status, err = r.Int(100, 599)
					to.outcome.Status = int(status)
				case "canceled":
					to.outcome.Canceled, err = r.Bool()
				case "timed_out":
					to.outcome.TimedOut, err = r.Bool()
				case "panicked":
					to.outcome.Panicked, err = r.Bool()
				case "waited_ms":
					to.outcome.Waited, err = readMillis(r)
				case "duration_ms":
					to.outcome.Duration, err = readMillis(r)
				default:
					err = r.Unknown("status", "canceled", "timed_out", "panicked", "waited_ms", "duration_ms")
				}
				return err
			})
		}
		return err
	})
	if err == nil && to.token == "" {
		err = r.Errorf("reservation is missing")
	}
	return to, err
}

// readMillis reads a time of an outcome.
func readMillis(r *strict.Reader) (time.Duration, error) {
	n, err := r.Int(0, described.MaxTime.Milliseconds())
	return time.Duration(n) * time.Millisecond, err
}

// serveSettle corrects what was reserved to what it really cost.
func (s *Service) serveSettle(e *exchange) error { return s.settle(e, false) }

// serveRefund gives back all that was reserved.
func (s *Service) serveRefund(e *exchange) error { return s.settle(e, true) }

func (s *Service) settle(e *exchange, refund bool) error {
	if err := e.noQuery(); err != nil {
		return err
	}
	to, err := readBody(e.body, func(r *strict.Reader) (*settlement, error) { return readSettlement(r, refund) })
	if err != nil {
		return err
	}
	v, _, err := s.open(to.token)
	if err != nil {
		return err
	}
	if err := to.apply(v); err != nil {
		return err
	}
	limiters, err := s.limitersOf(v)
	if err != nil {
		return err
	}
	// It is claimed before anything is given back: if this process ends in between, the client stays charged, which
	// is better than a refund that can be had twice. What has charged nothing can be settled any number of times.
	if len(limiters) > 0 {
		if err := s.claim(e, settledKey(v), "/reservation", "It was settled before."); err != nil {
			return err
		}
	}
	e.out = append(e.out[:0], `{"settled":true,"limits":[`...)
	for i := range v.charges {
		held := v.charges[i].held
		compose.Settle(limiters[i], held, max(time.Since(v.at), 0), refund, to.outcome) // below 0 if another process's clock is ahead
		for k := range held {
			if !held[k].Spare {
				e.out = appendSettled(e.out, &held[k], refund)
			}
		}
	}
	e.out = append(e.out, "]}"...)
	e.answer(http.StatusOK)
	return nil
}

// open returns the reservation of a token, and the token's ID.
func (s *Service) open(token string) (v *reservation, id []byte, err error) {
	text, id, err := s.seal.open(token)
	if err != nil {
		return nil, nil, badField("/reservation", "It is no reservation of this service, or it was altered, or sealed with a secret that the service no longer has.")
	}
	v = new(reservation)
	if err := v.read(text); err != nil {
		return nil, nil, badField("/reservation", "It can't be read: "+err.Error()+".")
	}
	if len(v.first) == 0 {
		v.first = id
	}
	if time.Since(v.sealed) > s.config.ReservationTTL {
		return nil, nil, &problem{status: http.StatusGone, pointer: "/reservation", detail: "It has expired: what was reserved stays charged."}
	}
	return v, id, nil
}

// limitersOf returns the limiters of a reservation's policies.
func (s *Service) limitersOf(v *reservation) (limiters []*core.Limiter, err error) {
	limiters = make([]*core.Limiter, len(v.charges))
	for i := range v.charges {
		if limiters[i], err = s.limiter(v.charges[i].policy, "/reservation"); err != nil {
			return nil, err
		}
	}
	return limiters, nil
}

// settledKey is the key of the mark that a reservation is settled, by whichever of its tokens.
func settledKey(v *reservation) []byte { return append([]byte("settled "), v.first...) }

// apply puts the real costs into a reservation. A cost applies to all estimates. A cost that would correct nothing
// is an error, since the caller believes that it has settled something.
func (to *settlement) apply(v *reservation) error {
	found := make(map[string]bool, len(to.costs))
	corrected := false
	for i := range v.charges {
		for k := range v.charges[i].held {
			h := &v.charges[i].held[k]
			cost, named := to.costs[h.Rule.Name]
			if h.Spare {
				continue
			}
			if named {
				found[h.Rule.Name] = true
			} else if cost = to.cost; !to.hasCost || !h.Estimate && !h.Given {
				continue
			}
			h.Told, h.Spent, corrected = true, cost, true
		}
	}
	for name := range to.costs {
		if !found[name] && len(v.charges) > 0 {
			return badField("/costs", fmt.Sprintf("The reservation has charged nothing under a limit %q.", name))
		}
	}
	if to.hasCost && !corrected && len(v.charges) > 0 {
		return badField("/cost", "The reservation has no estimate: name the limits in costs, or reserve with a cost.")
	}
	return nil
}

// claim makes sure that something happens once.
func (s *Service) claim(e *exchange, key []byte, pointer, before string) error {
	first, err := s.marks.claim(e.context(), key)
	switch {
	case err != nil:
		return s.storeProblem(err, "It is not known whether this was noted: try again. If the answer is 409 then, what was charged stays charged.")
	case !first:
		return &problem{status: http.StatusConflict, pointer: pointer, detail: before}
	}
	return nil
}

// appendSettled appends what a limit is charged in the end, as far as that is known now.
func appendSettled(dst []byte, h *compose.Held, refund bool) []byte {
	dst = appendInt(appendLimit(dst, h), "reserved", h.Cost)
	switch {
	case refund:
		dst = appendInt(dst, "charged", 0)
	case h.Told:
		dst = appendInt(dst, "charged", h.Spent)
	}
	return append(dst, '}')
}

// appendLimit begins an object about a limit in an array.
func appendLimit(dst []byte, h *compose.Held) []byte {
	if dst[len(dst)-1] != '[' {
		dst = append(dst, ',')
	}
	return appendText(append(dst, `{"name":`...), h.Rule.Name)
}

// serveCharge charges what was used, whether or not there is room for it. It peeks, for the limits, keys and rules that
// apply, and settles as if each limit had been charged 0 for what is now known to have cost more.
func (s *Service) serveCharge(e *exchange) error {
	if err := e.noQuery(); err != nil {
		return err
	}
	c, err := s.readCall(e)
	if err != nil {
		return err
	}
	operation := c.operation
	c.operation = ""
	if err := s.decideHere(e, c, true, true); err != nil {
		return err
	}
	for i := range e.asks {
		if d := &e.asks[i].Decision; d.Reason == core.ReasonMissingKey || d.Reason == core.ReasonAmbiguousKey || d.Reason == core.ReasonInvalidCost {
			return badField(c.pointer("", i), "A limit can't be charged: "+d.Reason.String()+".")
		}
	}
	// Claimed before it is charged: if this process ends in between, it is never charged, and not twice.
	if operation != "" {
		if err := s.claim(e, chargeKey(c, e.asks, operation), "/operation", "It was charged before."); err != nil {
			return err
		}
	}
	e.out = append(e.out[:0], `{"charged":true,"limits":[`...)
	for i := range e.asks {
		held := e.asks[i].Held
		for k := range held {
			h := &held[k]
			h.Told, h.Spent, h.Cost, h.Once = true, h.Cost, 0, nil
			h.Result.Charged = false
			e.out = append(appendInt(appendLimit(e.out, h), "charged", h.Spent), '}')
		}
		compose.Settle(e.asks[i].Limiter, held, 0, false, core.Outcome{})
	}
	e.out = append(e.out, "]}"...)
	e.answer(http.StatusOK)
	return nil
}

// chargeKey returns the key of a charge that has an operation: the operation, policies and keys. Without
// the keys, a client whose operation has the ID of another's, such as "1", would be charged nothing.
func chargeKey(c *call, asks []compose.Ask, operation string) []byte {
	hash := sha256.New()
	write := func(text []byte) {
		_, _ = hash.Write(binary.AppendUvarint(nil, uint64(len(text))))
		_, _ = hash.Write(text)
	}
	write([]byte(operation))
	for i := range c.checks {
		write([]byte(c.checks[i].policy))
		_, _ = hash.Write(binary.AppendUvarint(nil, uint64(len(asks[i].Held))))
		for k := range asks[i].Held {
			write(asks[i].Held[k].Key)
		}
	}
	return hash.Sum([]byte("charged "))
}
