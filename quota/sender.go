package quota

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

const (
	// exportPage bounds the accounts that one statement looks at.
	exportPage = 1000

	// minRetry and maxRetry bound the pause after a pass that failed.
	minRetry = 5 * time.Second
	maxRetry = 15 * time.Minute
)

// sender sends usage to one receiver, whenever it is this process's turn.
type sender struct {
	book     *Book
	export   Export
	failures int       // of the receiver, in passes in a row
	told     time.Time // when it was last reported that the ledger does not answer
	opened   bool      // the ledger knows the export

	accepted, pending atomic.Int64 // increments, for metrics: from this process; in the ledger

	// Of Close:
	cancel context.CancelFunc // ends the call on its way
	done   chan struct{}
}

// run does passes until polling is done.
func (s *sender) run(polling, sending context.Context) {
	defer close(s.done)
	every := min(s.export.Every, time.Second)
	for {
		select {
		case <-polling.Done():
			return
		case <-time.After(around(every)): // so that processes don't ask at the same time
		}
		if s.open(polling) {
			s.turn(polling, sending)
		}
	}
}

// open makes the export known, if the ledger did not answer when the book was opened.
func (s *sender) open(ctx context.Context) bool {
	if s.opened {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, s.book.config.Timeout)
	defer cancel()
	s.opened = s.book.ledger.OpenExport(ctx, s.export.Name, s.export.Since) == nil // or tried again, as the ledger is by all others
	return s.opened
}

// turn does a pass if one is due.
//
// The ledger's statements run until sending is done, and not only until polling is: one that is
// canceled on its way may have taken the lease all the same, and all other processes would wait for
// its end. Those that take the lease and give it back have a while longer.
func (s *sender) turn(polling, sending context.Context) {
	b := s.book
	lease := s.export.Timeout + b.config.Timeout + settleTime
	p := &ledger.Pass{Name: s.export.Name, Limits: s.export.Limits, HoldBack: s.export.HoldBack, Process: b.process, Lease: lease}
	ctx, cancel := b.outlasting(sending)
	ok, err := b.ledger.BeginPass(ctx, p)
	cancel()
	if err != nil || !ok {
		s.away(polling, err)
		return
	}
	refused, err := s.walk(polling, sending, p)
	pause, broken := s.export.Every, isOfLedger(err)
	if !broken {
		s.told = time.Time{}
	}
	switch {
	case polling.Err() != nil, broken: // another process goes on, or this one, as soon as the ledger answers
		pause = 0
	case err == nil && refused == 0:
		s.failures = 0
	default:
		s.failures++
		pause = s.pause(err)
	}
	switch {
	case errors.Is(err, errClosing):
	case broken && refused == 0:
		s.away(sending, err)
	default:
		s.report(sending, refused, err)
	}
	ctx, cancel = b.outlasting(sending)
	defer cancel()
	_ = b.ledger.EndPass(ctx, p, err == nil && refused == 0, pause) // or the lease ends
}

// pause returns the pause after a pass that failed.
func (s *sender) pause(err error) time.Duration {
	pause := min(minRetry, s.export.Every)
	for i := 1; i < s.failures && pause < maxRetry; i++ {
		pause *= 2
	}
	pause = around(min(pause, maxRetry))
	var e *DeliveryError
	if errors.As(err, &e) { // not around that, which could be sooner
		pause = max(pause, min(e.RetryAfter, maxRetryAfter))
	}
	return pause
}

// away reports that the ledger does not answer, at most once in reportEvery: it is asked each second and more often.
func (s *sender) away(ctx context.Context, err error) {
	if err != nil && time.Since(s.told) >= reportEvery {
		s.told = time.Now()
		s.report(ctx, 0, err)
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

// report reports a pass that failed.
func (s *sender) report(ctx context.Context, refused int64, err error) {
	if err == nil && refused == 0 || ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errors.New("the receiver refuses increments for good, which are sent again nevertheless")
	}
	s.book.health.registry.Report(store.Event{Kind: store.EventExportFailing, Node: s.export.Name, Count: refused, Err: err})
}

var (
	errOvertaken = ledgerError{errors.New("another process does this pass")}
	errClosing   = errors.New("the book is being closed")
)

// walk sends everything that the receiver does not have. It returns how many increments the
// receiver refuses for good.
func (s *sender) walk(polling, sending context.Context, p *ledger.Pass) (refused int64, err error) {
	var after ledger.Account
	for more := true; more; {
		if polling.Err() != nil {
			return refused, errClosing
		}
		ctx, cancel := context.WithTimeout(sending, s.book.config.Timeout)
		page, ok, err := s.book.ledger.NextIncrements(ctx, p, after, exportPage)
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
func (s *sender) send(sending context.Context, p *ledger.Pass, all []ledger.Increment) (refused int64, err error) {
	batch := make([]Increment, len(all))
	for i := range all {
		batch[i] = incrementOf(&all[i])
	}
	ctx, cancel := context.WithTimeout(sending, s.export.Timeout)
	err = send(ctx, &s.export, batch)
	cancel()
	if err == nil {
		s.accepted.Add(int64(len(all)))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(sending), s.book.config.Timeout)
		defer cancel()
		if err := s.book.ledger.Sent(ctx, p, all); err != nil {
			return 0, ofLedger(fmt.Errorf("writing what was sent, which is sent again: %w", err))
		}
		return 0, nil
	}
	var e *DeliveryError
	if !errors.As(err, &e) || !e.Permanent {
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

// send calls Send, which may panic.
func send(ctx context.Context, e *Export, batch []Increment) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("Send panicked: %v", r)
		}
	}()
	return e.Send(ctx, batch)
}

// senders are those of all exports of a book.
type senders struct{ all []*sender }

// start begins to send until ctx is done.
func (s *senders) start(ctx context.Context, b *Book, opened bool) {
	for _, e := range b.config.Exports {
		sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
		one := &sender{book: b, export: e, cancel: cancel, opened: opened, done: make(chan struct{})}
		s.all = append(s.all, one)
		go one.run(ctx, sending)
	}
}

// close waits for the calls on their way, and cancels them when ctx is done.
func (s *senders) close(ctx context.Context) (err error) {
	for _, one := range s.all {
		select {
		case <-one.done:
		case <-ctx.Done():
			err = fmt.Errorf("usage is on its way, and will be sent again: %w", context.Cause(ctx))
		}
		one.cancel()
	}
	return err
}

// openReceivers makes the channels and exports of this process known.
func (b *Book) openReceivers() error {
	ctx, cancel := context.WithTimeout(context.Background(), b.config.Timeout)
	defer cancel()
	if names := namesOf(b.config.Notices); len(names) > 0 {
		if err := b.ledger.OpenChannels(ctx, names); err != nil {
			return fmt.Errorf("weblimit: quota: opening channels: %w", err)
		}
	}
	for i := range b.config.Exports {
		if err := b.ledger.OpenExport(ctx, b.config.Exports[i].Name, b.config.Exports[i].Since); err != nil {
			return fmt.Errorf("weblimit: quota: opening exports: %w", err)
		}
	}
	return nil
}

func namesOf(channels []Channel) (names []string) {
	for i := range channels {
		names = append(names, channels[i].Name)
	}
	return names
}
