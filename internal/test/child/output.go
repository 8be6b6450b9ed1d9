package child

import (
	"bytes"
	"sync"
)

// Output collects what processes and loggers write, and may be read meanwhile. Its zero value is empty. It
// is safe for concurrent use.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer // Guarded by mu.
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns what was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
