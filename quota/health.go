package quota

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// health tracks whether the ledger answers, and reports what changes as events of the store.
type health struct {
	registry *store.Registry
	unseen   atomic.Bool // it was reported that failovers are not seen

	mu    sync.Mutex
	out   bool      // Guarded by mu.
	began time.Time // when it went out. Guarded by mu.
	did   time.Time // when it has done last what it is for: begun accounts, written positions or told allowances. Guarded by mu.
}

// failed records that the ledger did not answer what it was asked at a time, and reports whether it is out. If it has
// done something else since then, and has only taken too long, it is slow, and not out.
func (h *health) failed(asked time.Time, err error) (out bool) {
	h.mu.Lock()
	if errors.Is(err, context.DeadlineExceeded) && h.did.After(asked) {
		defer h.mu.Unlock()
		return h.out
	}
	first := !h.out
	if first {
		h.out, h.began = true, time.Now()
	}
	h.mu.Unlock()
	if first {
		h.registry.Report(store.Event{Kind: EventLedgerOut, Class: ClassLedger, Err: err})
	}
	return true
}

// worked records that the ledger has done what it is for.
func (h *health) worked() {
	h.mu.Lock()
	h.did = time.Now()
	h.mu.Unlock()
	h.answered()
}

// answered records that it has answered.
func (h *health) answered() {
	h.mu.Lock()
	last, lasted := h.out, time.Since(h.began)
	h.out = false
	h.mu.Unlock()
	if last {
		h.registry.Report(store.Event{Kind: EventLedgerBack, Duration: lasted, Over: true})
	}
}

func (h *health) isOut() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.out
}

// forked reports accounts of which the store has lost changes.
func (h *health) forked(n int64) {
	h.registry.Report(store.Event{Kind: EventAccountsForked, Count: n})
}

var errUnseen = errors.New("the store does not say when another server has taken over, so what that has lost can go unnoticed: " +
	"Redis needs the permission +info for the store's user; core/pgstore can't tell")

// sawHistory reports, once, a store on servers that can't tell which history their data is a part of.
func (h *health) sawHistory(history int64) {
	if history == 0 && !h.registry.Server().InProcess && h.unseen.CompareAndSwap(false, true) {
		h.registry.Report(store.Event{Kind: EventFailoversUnseen, Err: errUnseen})
	}
}

// waiting reports states of accounts that this process could not remember.
func (h *health) waiting(n int64) {
	h.registry.Report(store.Event{Kind: EventAccountsWaiting, Count: n})
}
