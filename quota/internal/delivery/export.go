package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weblimit/weblimit/quota/internal/ledger"
)

const (
	// exportPage bounds the accounts that one statement looks at.
	exportPage = 1000

	// minRetry and maxRetry bound the pause after a pass that failed.
	minRetry = 5 * time.Second
	maxRetry = 15 * time.Minute
)

// Export is a quota.Export.
type Export struct {
	Name     string
	Send     func(ctx context.Context, batch []ledger.Increment) error
	Limits   []string
	Every    time.Duration
	Batch    int
	Timeout  time.Duration
	HoldBack bool
	Since    time.Time
}

// Sender sends usage to one receiver, whenever it is this process's turn.
type Sender struct {
	*loop
	export   Export
	refusals int // of the receiver, in passes in a row
}

// NewSender returns the sender of an export.
func NewSender(d *Desk, e Export) *Sender {
	s := &Sender{export: e}
	s.loop = &loop{desk: d, client: s, what: "export", name: e.Name, failing: ExportFailing, every: min(e.Every, time.Second), ended: make(chan struct{})}
	return s
}

func (s *Sender) open(ctx context.Context) error {
	return s.desk.Ledger.OpenExport(ctx, s.name, s.export.Since)
}

func (s *Sender) count(ctx context.Context) (int64, error) {
	return s.desk.Ledger.Pending(ctx, s.name, mostPending)
}

// pass returns a pass that is not begun. Its lease outlasts a call of Send, a statement, and what is written then.
func (s *Sender) pass() *ledger.Pass {
	lease := s.export.Timeout + s.desk.Timeout + settleTime
	return &ledger.Pass{Name: s.name, Limits: s.export.Limits, HoldBack: s.export.HoldBack, Process: s.desk.Process, Lease: lease}
}

// Work does a pass if one is due.
func (s *Sender) Work(polling, sending context.Context) {
	d := s.desk
	p := s.pass()
	ctx, cancel := d.outlasting(sending)
	ok, err := d.Ledger.BeginPass(ctx, p)
	cancel()
	if err != nil || !ok {
		s.away(polling, err)
		return
	}
	refused, err := s.Walk(polling, sending, p)
	pause, broken := s.export.Every, isOfLedger(err)
	if !broken {
		s.recovered()
	}
	switch {
	case polling.Err() != nil, broken: // another process goes on, or this one, as soon as the ledger answers
		pause = 0
	case err == nil && refused == 0:
		s.refusals = 0
	default:
		s.refusals++
		pause = s.pauseAfter(err)
	}
	switch {
	case errors.Is(err, errClosing):
	case broken && refused == 0:
		s.away(sending, err)
	default:
		s.refused(sending, refused, err)
	}
	ctx, cancel = d.outlasting(sending)
	defer cancel()
	_ = d.Ledger.EndPass(ctx, p, err == nil && refused == 0, pause) // or the lease ends
}

// pauseAfter returns the pause after a pass that failed.
func (s *Sender) pauseAfter(err error) time.Duration {
	return pauseAfter(s.refusals, min(minRetry, s.export.Every), maxRetry, err)
}

// away reports that the ledger does not answer. It is asked each second and more often.
func (s *Sender) away(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		s.failed(0, err)
	}
}

// ledgerError is an error of the ledger, and not of the receiver, who did nothing that would be a reason to
// leave it alone for a while.
type ledgerError struct{ error }

func (e ledgerError) Unwrap() error { return e.error }

// ofLedger returns an error of the ledger, or nil.
func ofLedger(err error) error {
	if err == nil {
		return nil
	}
	return ledgerError{err}
}

func isOfLedger(err error) bool {
	var e ledgerError
	return errors.As(err, &e)
}

// refused reports a pass of which the receiver did not accept all. After each there is a pause.
func (s *Sender) refused(ctx context.Context, n int64, err error) {
	if err == nil && n == 0 || ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errors.New("the receiver refuses increments for good, which are sent again nevertheless")
	}
	s.report(ExportFailing, n, err)
}

var (
	errOvertaken = ledgerError{errors.New("another process does this pass")}
	errClosing   = errors.New("the book is being closed")
)

// Walk sends everything that the receiver does not have. It returns how many increments the
// receiver refuses for good.
func (s *Sender) Walk(polling, sending context.Context, p *ledger.Pass) (refused int64, err error) {
	var after ledger.Account
	for more := true; more; {
		if polling.Err() != nil {
			return refused, errClosing
		}
		ctx, cancel := context.WithTimeout(sending, s.desk.Timeout)
		page, ok, err := s.desk.Ledger.NextIncrements(ctx, p, after, exportPage)
		cancel()
		if err == nil && !ok {
			err = errOvertaken
		}
		if err != nil {
			return refused, ofLedger(err)
		}
		for all := page.All; len(all) > 0; {
			if polling.Err() != nil {
				return refused, errClosing
			}
			n := min(len(all), s.export.Batch)
			r, err := s.send(sending, p, all[:n])
			if refused += r; err != nil {
				return refused, err
			}
			all = all[n:]
		}
		after, more = page.Last, page.More
	}
	return refused, nil
}

// send sends a batch. If the receiver refuses it for good, it sends the halves, and so finds
// those that are refused.
func (s *Sender) send(sending context.Context, p *ledger.Pass, all []ledger.Increment) (refused int64, err error) {
	ctx, cancel := context.WithTimeout(sending, s.export.Timeout)
	err = guarded("Send", func() error { return s.export.Send(ctx, all) })
	cancel()
	if err == nil {
		s.accepted.Add(int64(len(all)))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(sending), s.desk.Timeout)
		defer cancel()
		if err := s.desk.Ledger.Sent(ctx, p, all); err != nil {
			return 0, ofLedger(fmt.Errorf("writing what was sent, which is sent again: %w", err))
		}
		return 0, nil
	}
	if !isPermanent(err) {
		return 0, err
	}
	if len(all) == 1 {
		return 1, nil
	}
	for _, half := range [][]ledger.Increment{all[:len(all)/2], all[len(all)/2:]} {
		n, err := s.send(sending, p, half)
		if refused += n; err != nil {
			return refused, err
		}
	}
	return refused, nil
}
