package quota

import (
	"context"
	"errors"
	"sync"
)

// growAfter is how many statements in a row must be done in time until one asks for twice as much.
const growAfter = 16

// batch is how much of what is asked in one statement a ledger does in time. It halves after a statement that took too
// long, or one that is too large would be asked again and again, and doubles after some that did not. The zero batch is
// as large as it can be.
type batch struct {
	mu     sync.Mutex
	halved int // how often. Guarded by mu.
	done   int // statements that were done in time since then. Guarded by mu.
}

// size returns how much to ask for, at most most.
func (b *batch) size(most int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(1, most>>b.halved)
}

// after notes how a statement ended that asked for n, of at most most.
func (b *batch) after(n, most int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		for b.done = 0; n > 1 && most>>b.halved > n/2; {
			b.halved++
		}
	case err == nil && b.halved > 0:
		if b.done++; b.done == growAfter {
			b.halved, b.done = b.halved-1, 0
		}
	}
}
