package child

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// recordSeparator begins a message, which a line feed ends, as in RFC 7464. What tests print is on the same output.
const recordSeparator = 0x1e

// Parent is the test that started this process. Its methods may be called concurrently.
type Parent struct {
	reading sync.Mutex
	in      *json.Decoder // Guarded by reading.

	writing sync.Mutex
	out     io.Writer // Guarded by writing.
}

// Send sends a message to the test. It panics if JSON has no form of it.
func (p *Parent) Send(message any) {
	text, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, _ = fmt.Fprintf(p.out, "%c%s\n", recordSeparator, text)
}

// Receive stores the test's next message in what into points to. It reports false when there are no more: the test
// has called [Process.Close], or is gone.
func (p *Parent) Receive(into any) bool {
	p.reading.Lock()
	defer p.reading.Unlock()
	return p.in.Decode(into) == nil
}

// Wait returns when the test has called [Process.Close], or is gone.
func (p *Parent) Wait() {
	for p.Receive(new(any)) {
	}
}
