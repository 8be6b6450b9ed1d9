package quota

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// A book tells its store's registry, for metrics, what it grants, delivers, exports and finds, and what
// waits; until it is closed.
func TestNumbersOfABook(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		var mail receiver
		var refuse atomic.Bool
		refuse.Store(true)
		mail.answer = func(Notice) error {
			if refuse.Load() {
				return errors.New("not yet")
			}
			return nil
		}
		config := quickly(Channel{Name: "mail", Deliver: mail.Deliver})
		config.Exports = []Export{{Name: "meter", Every: 10 * time.Millisecond, Send: func(context.Context, []Increment) error {
			if refuse.Load() {
				return errors.New("not yet")
			}
			return nil
		}}}
		b := bookOn(t, l, config)
		registry := config.Store.Registry()
		numbers := func() books.Stats {
			b.stats.counted.Store(0)
			b.countPending(t.Context())
			return books.All(registry)[0]
		}
		limiter := limiterOn(t, b.Store(), monthly(10), monthly(100).Named("shadow").Shadow())
		spend(t, limiter, "tenant:acme", 13)
		must.Equal(t, "units of the limit", numbers().Units["plan"], books.Units{Granted: 10, Denied: 3})
		check.Equal(t, "units of a limit that the others let through", numbers().Units["shadow"].Granted, 10)
		check.Equal(t, "accounts", numbers().Accounts, 2)
		wait.Until(t, "what is written, and waits for receivers", func() bool {
			n := numbers()
			return n.Unwritten == 0 && n.Notices["mail"] == books.Deliveries{Pending: 3} && n.Exports["meter"] == books.Deliveries{Pending: 2}
		})
		refuse.Store(false)
		wait.Until(t, "what was delivered and sent", func() bool {
			n := numbers()
			return n.Notices["mail"] == books.Deliveries{Done: 3} && n.Exports["meter"] == books.Deliveries{Done: 2}
		})
		forget(t, config.Store, "tenant:acme", monthly(10))
		must.Get(b.Reconcile(t.Context(), false, nil))(t)
		check.Equal(t, "accounts that the store has forgotten", numbers().Differences["forgotten"], 1)
		closeBook(t, b)
		check.Equal(t, "numbers of a closed book", len(books.All(registry)), 0)
	})
}
