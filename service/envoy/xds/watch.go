package xds

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	// leastGap is the least time between two answers that are read, and mostGap the most: in between it is workShare times what
	// it took to read and judge the last one. A control plane that sends one after the other leaves the rest of the processor to requests.
	leastGap  = 100 * time.Millisecond
	mostGap   = 5 * time.Second
	workShare = 4

	// A control plane may send what was refused again as soon as it hears of that. From the second refusal in a row on, it
	// hears later: after leastRefusal, and twice as long each time up to mostRefusal. So late can an answer be that is good.
	leastRefusal = time.Second
	mostRefusal  = 5 * time.Second
)

// Watch implements [envoy.Source]: it follows the control plane, over one connection.
func (s *Source) Watch(ctx context.Context, changed func()) {
	s.watches(1)
	defer s.watches(-1)
	for between := s.newPauses(); ; {
		began := time.Now()
		err := s.follow(ctx, changed)
		if ctx.Err() != nil {
			s.lost(ctx, ctx.Err())
			return
		}
		s.lost(ctx, err)
		if !between.wait(ctx, time.Since(began)) {
			return
		}
	}
}

func (s *Source) watches(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching += more
}

// follow follows one stream until it is lost.
func (s *Source) follow(ctx context.Context, changed func()) error {
	st, err := open(ctx, &s.config)
	if err != nil {
		return err
	}
	defer st.close()
	s.connected(ctx)
	for refusals := 0; ; {
		wire, err := st.receive()
		if errors.Is(err, errTooLarge) { // the rest of the stream can't be read either
			_, _ = s.take(&answer{err: s.failed(err), judged: make(chan error, 1)})
			changed()
		}
		if err != nil {
			return err
		}
		began := time.Now()
		a, err := read(wire)
		if err != nil {
			return err
		}
		s.heard(ctx)
		verdict, err := s.judge(ctx, a, changed)
		if err != nil {
			return err
		}
		took := time.Since(began)
		if verdict == nil {
			refusals = 0
		} else if refusals++; refusals > 1 && !sleep(ctx, min(leastRefusal<<min(refusals-2, 10), mostRefusal)) {
			return ctx.Err()
		}
		if err := st.tell(a, verdict); err != nil {
			return err
		}
		if !sleep(ctx, min(max(workShare*took, leastGap), mostGap)) {
			return ctx.Err()
		}
	}
}

// judge returns what is wrong with an answer, or nil: what the server says of it, or has said of the same before. The second
// error is that ctx has ended.
func (s *Source) judge(ctx context.Context, a *answer, changed func()) (verdict, err error) {
	if known, verdict := s.take(a); known {
		return verdict, nil
	}
	changed()
	select {
	case verdict = <-a.judged:
		return verdict, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// take has Load return an answer. It reports whether the same was judged before, and what was wrong with it. What was wrong
// with an answer without files is known at once, and Load says it.
func (s *Source) take(a *answer) (known bool, verdict error) {
	s.mu.Lock()
	before := s.latest
	s.latest = a
	if before != nil && before.decided && before.sum == a.sum && (before.err == nil) == (a.err == nil) {
		a.decided, a.verdict = true, before.verdict
		if a.verdict == nil {
			s.status.Version = a.version
		}
		s.mu.Unlock()
		return true, a.verdict
	}
	s.mu.Unlock()
	if a.err != nil {
		s.decide(a, a.err)
	}
	return false, nil
}

// connected notes that there is a stream.
func (s *Source) connected(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Connected, s.status.Since, s.status.Err = true, time.Now(), nil
	if s.said == "" {
		s.config.Logger.LogAttrs(ctx, slog.LevelInfo, "weblimit: envoy: connected to the control plane", slog.String("server", s.config.Server), slog.String("node", s.config.NodeID))
	}
}

// heard notes that the stream has had an answer.
func (s *Source) heard(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said != "" {
		s.said = ""
		s.config.Logger.LogAttrs(ctx, slog.LevelInfo, "weblimit: envoy: the control plane answers again", slog.String("server", s.config.Server), slog.String("node", s.config.NodeID))
	}
}

// lost notes that there is no stream. The reason is logged once for as long as it stays the same.
func (s *Source) lost(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Connected || s.status.Since.IsZero() {
		s.status.Connected, s.status.Since = false, time.Now()
	}
	s.status.Err = err
	if ctx.Err() != nil || s.said == err.Error() {
		return
	}
	s.said = err.Error()
	s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "weblimit: envoy: the control plane is away, what decided before goes on", slog.String("server", s.config.Server), slog.String("error", s.said))
}

// pauses are those between streams.
type pauses struct{ next, least, most time.Duration }

func (s *Source) newPauses() *pauses {
	return &pauses{s.config.Retry, s.config.Retry, s.config.MaxRetry}
}

// wait waits after a stream that has lasted so long. It returns false if ctx ends before.
func (p *pauses) wait(ctx context.Context, lasted time.Duration) bool {
	if lasted >= p.most {
		p.next = p.least
	}
	// A fleet that has lost its control plane does not come back to it together.
	pause := p.next/2 + rand.N(p.next/2+1) //nolint:gosec // G404: no secret
	p.next = min(2*p.next, p.most)
	return sleep(ctx, pause)
}

// sleep returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
