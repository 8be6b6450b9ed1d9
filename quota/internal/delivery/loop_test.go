package delivery

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	c := newCourier(nil, Channel{Backoff: 5 * time.Second, Attempts: 20})
	for _, tt := range []struct {
		name     string
		attempts int
		err      error
		min, max time.Duration
		verdict  ledger.Verdict
	}{
		{"the first", 1, errors.New("x"), 2500 * time.Millisecond, 7500 * time.Millisecond, ledger.Failed},
		{"the third", 3, errors.New("x"), 10 * time.Second, 30 * time.Second, ledger.Failed},
		{"a late one", 19, errors.New("x"), 3 * time.Hour, 9 * time.Hour, ledger.Failed},
		{"the last", 20, errors.New("x"), 0, 9 * time.Hour, ledger.Dead},
		{"refused for good", 1, fmt.Errorf("w: %w", &Refusal{Permanent: true, Err: errors.New("no")}), 0, time.Hour, ledger.Dead},
		{"asked to wait", 1, &Refusal{RetryAfter: time.Hour, Err: errors.New("later")}, time.Hour, time.Hour, ledger.Failed},
		{"asked to wait for years", 1, &Refusal{RetryAfter: 1 << 62, Err: errors.New("later")}, 24 * time.Hour, 24 * time.Hour, ledger.Failed},
	} {
		for range 50 {
			if s := c.judge(&ledger.Delivery{Attempts: tt.attempts}, tt.err); s.Pause < tt.min || s.Pause > tt.max || s.Verdict != tt.verdict {
				t.Errorf("%s: %+v", tt.name, s)
			}
		}
	}
}

// A receiver that says how long to wait is not asked sooner, whatever the jitter of the pauses between passes.
func TestPausesOfExports(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		failures int
		err      error
		min, max time.Duration
	}{
		{"the first", 1, errors.New("x"), minRetry / 2, minRetry * 3 / 2},
		{"a late one", 100, errors.New("x"), maxRetry / 2, maxRetry * 3 / 2},
		{"asked to wait", 1, &Refusal{RetryAfter: time.Hour}, time.Hour, time.Hour},
		{"asked to wait for years", 1, &Refusal{RetryAfter: 1 << 62}, MaxRetryAfter, MaxRetryAfter},
	} {
		s := &Sender{refusals: tt.failures, export: Export{Every: maxRetry}}
		for range 50 {
			if pause := s.pauseAfter(tt.err); pause < tt.min || pause > tt.max {
				t.Errorf("%s: %v", tt.name, pause)
			}
		}
	}
}

// A receiver that is away for a moment has refused nothing: the batch is sent again as a whole, and not in halves.
func TestAFailureForAMomentIsNoRefusal(t *testing.T) {
	t.Parallel()
	away, calls := errors.New("connection refused"), 0
	s := NewSender(&Desk{Timeout: time.Minute}, Export{Timeout: time.Minute, Send: func(context.Context, []ledger.Increment) error {
		calls++
		return away
	}})
	refused, err := s.send(t.Context(), new(ledger.Pass), make([]ledger.Increment, 4))
	check.Is(t, "sending", err, away)
	check.Equal(t, "refused", refused, 0)
	check.Equal(t, "calls", calls, 1)
}
