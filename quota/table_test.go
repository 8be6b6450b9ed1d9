package quota

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/quota/internal/accounts"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
)

// noticedOf returns the levels of all notices.
func noticedOf(t *testing.T, b *Book) string {
	t.Helper()
	var levels []int
	for _, d := range deliveriesOf(t, b, DeliveryQuery{Channel: "mail"}) {
		levels = append(levels, d.Notice.Level)
	}
	slices.Sort(levels)
	return fmt.Sprint(levels)
}

// 90 % of 15 units are 13.5, which are reached with the 14th.
func TestALevelOfAFractionIsReachedByAWholeUnit(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		must.OK(t, l.OpenChannels(t.Context(), []string{"mail"}))
		b := bookOn(t, l, byHand(fresh()))
		limiter := limiterOn(t, b.Store(), monthly(15))
		for n, want := range []string{11: "[]", 12: "[80]", 13: "[80]", 14: "[80 90]", 15: "[80 90 100]"} {
			if n > 0 {
				spend(t, limiter, "tenant:acme", 1)
			}
			if want != "" {
				mustFlushBook(t, b)
				check.Equal(t, fmt.Sprintf("notices of %d units of 15", n), noticedOf(t, b), want)
			}
		}
	})
}

// A level is noticed with the first flush that succeeds, though it was told with one that failed.
func TestALevelWhoseFlushFails(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		must.OK(t, l.OpenChannels(t.Context(), []string{"mail"}))
		broken := &brokenLedger{Ledger: l, random: rand.New(rand.NewPCG(1, 1))}
		b, _ := byHandOn(t, broken, 100)
		takeFrom(t, b, "tenant:acme", 85)
		broken.breaks(1, 0)
		check.Fails(t, "a flush", b.Flush(t.Context()), errBroken.Error())
		broken.breaks(0, 0)
		mustFlushBook(t, b)
		check.Equal(t, "levels", noticedOf(t, b), "[80]")
	})
}

// Entries that nobody has asked for are forgotten when the ledger has what they say, and not before: who begins the next
// account of a tenant tells what the process has charged to the last one.
func TestTheSweepKeepsWhatIsNotWritten(t *testing.T) {
	t.Parallel()
	b, _ := byHandOn(t, memledger.New(defaultLevels), 100)
	takeFrom(t, b, "tenant:acme", 5)
	sweep := func() {
		for i := range 2 * accounts.ShardCount {
			b.table.Sweep(i)
		}
	}
	sweep()
	check.Equal(t, "entries that are not written", b.table.Entries.Load(), 1)
	mustFlushBook(t, b)
	sweep()
	check.Equal(t, "entries that are written", b.table.Entries.Load(), 0)
}
