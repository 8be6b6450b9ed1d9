// Package exchange stands in for what a store has trackers of top clients exchange, within a process
// and by its clock, so that several instances fit in one bubble.
package exchange

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// Memory implements top.Exchange. The zero value is ready to use. It is safe for concurrent use.
type Memory struct {
	Secret []byte // on which instances agree; the first proposal if nil

	mu        sync.Mutex
	down      error                // Guarded by mu.
	snapshots map[string]published // Guarded by mu.
}

type published struct {
	snapshot []byte
	until    time.Time
}

// SetDown has all calls fail with err, though they do what they are asked for.
func (m *Memory) SetDown(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = err
}

// Publish keeps an instance's snapshot for ttl.
func (m *Memory) Publish(_ context.Context, instance string, snapshot []byte, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.snapshots == nil {
		m.snapshots = make(map[string]published)
	}
	m.snapshots[instance] = published{bytes.Clone(snapshot), time.Now().Add(ttl)}
	return m.down
}

// Collect returns the snapshots that have not expired.
func (m *Memory) Collect(context.Context) (all [][]byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.snapshots {
		if time.Now().Before(p.until) {
			all = append(all, p.snapshot)
		}
	}
	return all, m.down
}

// Agree returns the secret.
func (m *Memory) Agree(_ context.Context, proposal []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Secret == nil {
		m.Secret = bytes.Clone(proposal)
	}
	return m.Secret, m.down
}
