package xds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"
)

// Source has the limits of a control plane, for one [envoy.Server]. Its methods are safe for concurrent use.
type Source struct {
	config Config

	mu     sync.Mutex
	latest *answer // that was sent last, or nil. Guarded by mu.
	given  *answer // that Load returned last, or nil. Guarded by mu.
	first  *stream // of the first Load, which Acknowledge ends, or nil. Guarded by mu.
	said   string  // why a stream was lost, as it was logged; "" once there is an answer again. Guarded by mu.

	watching int    // calls of Watch. Guarded by mu.
	status   Status // Guarded by mu.
}

var _ envoy.Acknowledger = (*Source)(nil)

// Status says how a [Source] and its control plane get along.
type Status struct {
	Connected bool      // whether there is a stream
	Since     time.Time // when it began or was lost; zero before Watch
	Err       error     // why there is no stream; nil while there is one

	Version  string // of the answer that was accepted last, as the control plane calls it
	Accepted int64  // how many answers were accepted; the same again does not count
	Refused  int64  // and refused
}

// New returns the source of a control plane. It connects to nothing.
func New(config Config) (*Source, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	return &Source{config: config}, nil
}

// Status returns how the source and the control plane get along, for metrics and pages.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Load implements [envoy.Source]: it returns what the control plane has sent last. Before Watch, the first one connects and
// waits for an answer as long as Config.Wait.
func (s *Source) Load(ctx context.Context) ([]policy.File, error) {
	s.mu.Lock()
	a, watching := s.latest, s.watching > 0
	why := s.status.Err
	s.mu.Unlock()
	var err error
	switch {
	case a != nil:
	case watching && why == nil:
		return nil, s.failed(errSilent)
	case watching:
		return nil, s.failed(why)
	default:
		if a, err = s.fetch(ctx); err != nil {
			return nil, err
		}
	}
	if a.err != nil {
		return nil, a.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = a
	return a.files, nil
}

var errSilent = errors.New("it is connected and has sent nothing; does it have resources for this node?")

// failed returns an error that says what was asked.
func (s *Source) failed(err error) error {
	return fmt.Errorf("weblimit: envoy: no configuration from %s for the node %q: %w", s.config.Server, s.config.NodeID, err)
}

// fetch subscribes until there is an answer. The stream stays until the answer is acknowledged.
func (s *Source) fetch(ctx context.Context) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Wait)
	defer cancel()
	var before error
	for between := s.newPauses(); ; {
		began := time.Now()
		st, a, err := ask(ctx, &s.config)
		switch {
		case err == nil:
			s.keep(st, a)
			return a, nil
		case before != nil && ctx.Err() != nil && !errors.Is(err, errSilent): // there was no time to find out as much again
			return nil, s.failed(before)
		case !between.wait(ctx, time.Since(began)):
			return nil, s.failed(err)
		}
		before = err
	}
}

// ask opens a stream, and returns the first answer.
func ask(ctx context.Context, config *Config) (*stream, *answer, error) {
	st, err := open(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	wire, err := st.receive()
	if !st.unbind() { // it was ended, whatever receive says of that
		err = errSilent
	}
	var a *answer
	if err == nil {
		a, err = read(wire)
	}
	if err != nil {
		st.close()
		return nil, nil, err
	}
	return st, a, nil
}

// unheard is how long a stream stays open for whoever loads files and acknowledges none.
const unheard = 30 * time.Second

// keep has the answer of the first Load be acknowledged on its stream. What is refused at once is told at once.
func (s *Source) keep(st *stream, a *answer) {
	s.mu.Lock()
	s.latest = a
	if a.err == nil {
		s.first = st
		st.late = time.AfterFunc(unheard, st.close)
	}
	s.mu.Unlock()
	if a.err != nil {
		s.decide(a, a.err)
		_ = st.tell(a, a.err)
		st.finish()
	}
}

// Acknowledge implements [envoy.Acknowledger].
func (s *Source) Acknowledge(err error) {
	s.mu.Lock()
	a, first := s.given, s.first
	s.given, s.first = nil, nil
	s.mu.Unlock()
	if a != nil {
		s.decide(a, err)
	}
	if a != nil && first != nil {
		first.late.Stop()
		_ = first.tell(a, err)
		first.finish()
	}
}

// decide notes what became of an answer, once.
func (s *Source) decide(a *answer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.decided {
		return
	}
	a.decided, a.verdict = true, err
	if err != nil {
		s.status.Refused++
	} else {
		s.status.Accepted++
		s.status.Version = a.version
	}
	a.judged <- err // it has room
}
