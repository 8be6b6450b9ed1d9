package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// work keeps the tracker's time, moves decisions to the rates, and publishes snapshots.
func (t *Tracker) work(ctx context.Context) {
	defer close(t.done)
	clock := time.NewTicker(time.Second / ticksPerSecond)
	defer clock.Stop()
	published := make(chan struct{}, 1) // holds something while no round is on its way: one at a time, however slow the exchange is
	published <- struct{}{}
	settled, next := tick(t.clock.Load())/ticksPerSecond, time.Now()
	for {
		select {
		case <-ctx.Done():
			if t.config.Exchange != nil {
				<-published // its context has ended, too
			}
			return
		case at := <-clock.C:
			now := tickOf(at)
			if second := now / ticksPerSecond; second != settled {
				// Before the clock moves on: what came until now belongs to the second that ends.
				t.settle(tick(t.clock.Load()))
				settled = second
			}
			t.clock.Store(int64(now))
			if t.config.Exchange == nil || at.Before(next) {
				continue
			}
			select {
			case <-published: // the last round has ended
				next = at.Add(t.config.Interval)
				go func() {
					defer func() { published <- struct{}{} }()
					t.report(ctx, t.publish(ctx))
				}()
			default:
			}
		}
	}
}

// settle brings the rates up to date.
func (t *Tracker) settle(now tick) {
	if state := t.state.Load(); state != nil {
		for _, l := range *state.limits.Load() {
			l.settle(now)
		}
	}
}

// lifetime is how many intervals a snapshot is visible.
const lifetime = 3

// publish makes a snapshot visible to other instances.
func (t *Tracker) publish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.config.Interval)
	defer cancel()
	if err := t.agree(ctx); err != nil {
		return err
	}
	data := t.snapshot(t.config.Clients, maxSampled).marshalWithin(maxPublished)
	return t.config.Exchange.Publish(ctx, t.config.Instance, data, lifetime*t.config.Interval)
}

// agree takes on the secret that all instances share, so that their samples are of the same
// clients. If it was another one, what was counted is moved; that happens when the process starts.
func (t *Tracker) agree(ctx context.Context) error {
	mine := t.state.Load()
	if mine == nil {
		return errors.New("the tracker is closed")
	}
	secret, err := t.config.Exchange.Agree(ctx, mine.text)
	if err != nil {
		return err
	}
	if len(secret) != secretSize {
		return fmt.Errorf("the secret of the instances has %d bytes, want %d", len(secret), secretSize)
	}
	if !bytes.Equal(secret, mine.text) {
		agreed := newState(bytes.Clone(secret))
		if t.state.CompareAndSwap(mine, agreed) { // or it was closed meanwhile
			t.move(mine, agreed)
		}
	}
	return nil
}

// report logs when publishing begins to fail, and when it works again.
func (t *Tracker) report(ctx context.Context, err error) {
	if ctx.Err() != nil { // closed
		return
	}
	t.publishing.mu.Lock()
	defer t.publishing.mu.Unlock()
	switch before := t.publishing.err; {
	case err != nil && before == nil:
		slog.Default().Warn("weblimit: counts of top clients can't be published", "error", err)
	case err == nil && before != nil:
		slog.Default().Info("weblimit: counts of top clients are published again")
	}
	t.publishing.err = err
}

// Collect returns what all instances have counted: the snapshots that they have published in the
// last seconds, and one of this process. It is for admin pages while somebody looks: each
// instance's snapshot may have 64 KB. Beside an error it returns what could be read, at least
// what this process has counted. Without Config.Exchange it is Snapshot.
func (t *Tracker) Collect(ctx context.Context) (*Snapshot, error) {
	mine := t.Snapshot()
	if t.config.Exchange == nil {
		return mine, nil
	}
	data, err := t.config.Exchange.Collect(ctx)
	all := []*Snapshot{mine}
	others, broken := Published(data, mine.Instances[0].At)
	for _, s := range others {
		if s.Instances[0].Name != t.config.Instance {
			all = append(all, s)
		}
	}
	return Merge(all...), errors.Join(err, broken)
}

// Close stops counting and publishing, and waits for the goroutine of New to end. What was
// published is visible for some seconds more. Close may be called several times.
func (t *Tracker) Close() {
	t.state.Store(nil)
	t.stop()
	<-t.done
}
