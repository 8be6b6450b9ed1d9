package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/breaker"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/service/internal/described"
)

// held is what the service holds for a request. core calls its methods one at a time, in the background.
type held struct {
	client *Client
	token  string
	in     time.Duration // after which to renew it
}

var _ compose.Elsewhere = (*held)(nil)

// Settle tells the service how the request ended. An answer that it was settled before is that to an earlier call, whose
// own answer was lost.
func (h *held) Settle(ctx context.Context, e compose.Ending) error {
	var err error
	if e.Refund {
		err = h.client.Refund(ctx, h.token)
	} else {
		for name, cost := range e.Costs {
			e.Costs[name] = min(cost, described.MaxCost) // more than any limit has room for, either way
		}
		err = h.client.Settle(ctx, Settlement{Reservation: h.token, Costs: e.Costs, Outcome: outcomeOf(&e)})
	}
	if problem := (*Problem)(nil); errors.As(err, &problem) && problem.Status == http.StatusConflict {
		return nil
	}
	return err
}

// outcomeOf returns an outcome as the service takes it. Times are rounded so that a failure is the client's in doubt.
func outcomeOf(e *compose.Ending) *Outcome {
	taken := func(d time.Duration) int64 { return min(max(d, 0), described.MaxTime).Milliseconds() }
	o := &Outcome{
		Canceled: e.Canceled, TimedOut: e.TimedOut, Panicked: e.Panicked,
		WaitedMS: taken(min(e.Waited, described.MaxTime) + time.Millisecond - 1), DurationMS: taken(e.Duration),
	}
	if e.Status >= 100 && e.Status <= 599 {
		o.Status = e.Status
	}
	return o
}

// Renew keeps the service from letting go of what it holds. While it does not answer, that is tried again, so soon that
// two can fail before a lease ends; a token that can't be renewed is the last one, by which the request is settled as
// long as it has not expired.
func (h *held) Renew(ctx context.Context) (again time.Duration) {
	a, err := h.client.Renew(ctx, h.token)
	switch failed := (*store.Error)(nil); {
	case err == nil:
		h.token, h.in = a.Reservation, renewIn(a.RenewMS)
		return h.in
	case errors.As(err, &failed):
		return min(breaker.NextPause(), h.in/2)
	}
	return 0
}

// renewIn returns when to renew by an answer: at most once a tenth of a second, whatever it says.
func renewIn(ms int64) time.Duration {
	if ms <= 0 {
		return 0
	}
	return millis(max(ms, 100))
}
