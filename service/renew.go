package service

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/service/internal/strict"
)

// serveRenew keeps a reservation from expiring: the leases of its slots begin anew, and so does the time in which it
// can be settled. The answer has a token in place of the one that was given. All tokens of a reservation are settled once.
//
// Until the caller renews the new token, it may not have seen the answer, so the one before can be renewed again. That
// takes slots once more if the first renewal had taken them, and the first ones end with their lease: the store knows
// them by a time that nobody has seen. Who renews the new token has seen the answer, and the one before is void.
func (s *Service) serveRenew(e *exchange) error {
	if err := e.noQuery(); err != nil {
		return err
	}
	to, err := readBody(e.body, func(r *strict.Reader) (*settlement, error) { return readSettlement(r, true) })
	if err != nil {
		return err
	}
	v, id, err := s.open(to.token)
	if err != nil {
		return err
	}
	limiters, err := s.limitersOf(v)
	if err != nil {
		return err
	}
	salt := id[:saltSize]
	set, err := s.marks.has(e.context(), settledKey(v), renewedKey(saltAfter(salt)))
	switch {
	case err != nil:
		return s.storeProblem(err, "Nothing was renewed.")
	case set[0]:
		return &problem{status: http.StatusConflict, pointer: "/reservation", detail: "It was settled before."}
	case set[1]:
		return &problem{status: http.StatusConflict, pointer: "/reservation", detail: "It was renewed before, and the reservation of that answer was renewed, too."}
	}
	if !bytes.Equal(id, v.first) { // there is one before, which this voids, the second time as the first
		if _, err := s.marks.claim(e.context(), renewedKey(salt)); err != nil {
			return s.storeProblem(err, "Nothing was renewed.")
		}
	}
	for i := range v.charges {
		if err := v.charges[i].renew(e.context(), limiters[i]); err != nil {
			return s.storeProblem(err, fmt.Sprintf("Slots of the policy %q are not renewed.", v.charges[i].policy))
		}
	}
	v.sealed = time.Now()
	token, err := s.sealed(v, salt)
	if err != nil {
		return err
	}
	e.out = s.appendToken(append(e.out[:0], `{"renewed":true`...), v, token)
	e.answer(http.StatusOK)
	return nil
}

// renewedKey is the key of the mark that a token with a salt was renewed.
func renewedKey(salt []byte) []byte { return append([]byte("renewed "), salt...) }

// renew renews the slots among the charges.
func (of *chargesOf) renew(ctx context.Context, by *core.Limiter) error {
	var checks []store.Check
	var results []store.Result
	var at []int
	for k := range of.held {
		h := &of.held[k]
		if h.Rule.Algorithm == store.Concurrency && !h.Spare {
			checks, results, at = append(checks, store.Check{Key: h.Key, Rule: &h.Rule, Cost: h.Cost}), append(results, h.Result), append(at, k)
		}
	}
	if len(checks) == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, store.DefaultTimeout)
	defer cancel()
	if err := by.Store().Renew(bounded, checks, results); err != nil {
		return err
	}
	for i, k := range at {
		of.held[k].Result = results[i]
		of.held[k].Result.Charged = true
	}
	return nil
}

// renewIn returns after which time a reservation should be renewed while its request runs: so early that two
// renewals can fail before a lease ends, and one before the reservation expires.
func (s *Service) renewIn(v *reservation) time.Duration {
	in := s.config.ReservationTTL / 2
	for i := range v.charges {
		for k := range v.charges[i].held {
			if r := &v.charges[i].held[k].Rule; r.Algorithm == store.Concurrency {
				in = min(in, r.Window/3)
			}
		}
	}
	return in
}
