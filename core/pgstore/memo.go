package pgstore

import "sync"

// memo remembers the rows that the process wrote or read last, so that it can decide before
// it asks. What it remembers may be wrong: the server writes nothing then. It keeps two
// generations, so that rows in use stay when it is full.
type memo struct {
	mu       sync.Mutex
	now, old map[string]row // Guarded by mu.
	bytes    int            // Guarded by mu. Of now.
}

// row is a row as stored.
type row struct {
	version int64
	state   []byte // never written to

	// contended is above 0 while other processes change the row so often that it is better
	// locked first.
	contended uint8
}

// contendedFor is how many flights in a row must find a contended row as they remember it, for
// the row to be contended no more.
const contendedFor = 3

const (
	// memoBytes bounds one generation.
	memoBytes = 4 << 20
	// rowBytes is about what a row takes besides its id and state.
	rowBytes = 100
	// longestRow is the longest state that is remembered. Some long logs would otherwise push out thousands of short rows.
	longestRow = memoBytes / 64
)

func (m *memo) get(id string) row {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.now[id]
	if ok {
		return r
	}
	if r, ok = m.old[id]; ok {
		m.put(id, r)
	}
	return r
}

func (m *memo) set(id string, r row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(id, r)
}

// put adds a row. m.mu is held.
func (m *memo) put(id string, r row) {
	if r.version == 0 || len(r.state) > longestRow {
		delete(m.now, id)
		delete(m.old, id)
		return
	}
	if m.bytes > memoBytes || m.now == nil {
		m.old, m.now, m.bytes = m.now, map[string]row{}, 0
	}
	if before, ok := m.now[id]; ok {
		m.bytes += len(r.state) - len(before.state)
	} else {
		m.bytes += rowBytes + len(id) + len(r.state)
	}
	m.now[id] = r
}
