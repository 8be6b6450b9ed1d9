package redisstore

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// layoutCase is a sequence of calls whose stored values are on file. Its limits live for minutes at
// least, so that no key expires while it runs: time is the sequence's own.
//
// A sequence whose file is part of a release never changes. Add another instead.
type layoutCase struct {
	name  string // of the file
	about string // its first line
	run   func(l *layout)
}

const layoutClient = "user:alice"

// layoutRule returns a rule that is known to be good.
func layoutRule(name string, n store.Numbers) *store.Rule {
	r, err := store.NewRule(name, n)
	if err != nil {
		panic(err)
	}
	return &r
}

// units is a check of the usual client.
func units(n int64, rule *store.Rule) store.Check {
	return store.Check{Key: []byte(layoutClient), Rule: rule, Cost: n}
}

// spend is the same sequence for every limit that counts units: some, more after a while, more than
// there is, a refund, a charge beyond the limit, a look, and the end of the window.
func spend(l *layout, rule *store.Rule, some int64) {
	l.take(units(some, rule))
	l.wait((rule.Window / 7).Truncate(time.Second))
	second := l.take(units(2*some, rule))
	l.take(units(rule.Burst, rule))
	l.wait((rule.Window / 9).Truncate(time.Second)) // too short to give all of second back
	l.refund(second)
	l.take(units(1, rule))
	l.charge(units(2*rule.Burst, rule))
	l.peek(units(1, rule))
	l.wait(rule.Window)
	l.take(units(1, rule))
	l.wait(3 * rule.Window)
	l.take(units(0, rule))
	l.take(units(1, rule))
}

// spending makes a case of spend.
func spending(name, about string, some int64, n store.Numbers) layoutCase {
	return layoutCase{name, about, func(l *layout) { spend(l, layoutRule(name, n), some) }}
}

var layoutCases = []layoutCase{
	spending("token-bucket", "a token bucket of 10 per hour, which drains one debt a tick", 2,
		store.Numbers{Algorithm: store.TokenBucket, Quota: 10, Window: time.Hour}),
	spending("token-bucket-rate", "a token bucket of 7 per hour, whose rate is above 1, with a burst of 20", 3,
		store.Numbers{Algorithm: store.TokenBucket, Quota: 7, Window: time.Hour, Burst: 20}),
	spending("token-bucket-milliseconds", "a token bucket that counts in milliseconds", 1000,
		store.Numbers{Algorithm: store.TokenBucket, Quota: 7, Window: 30 * 24 * time.Hour, Burst: 5000}),
	spending("token-bucket-seconds", "a token bucket that counts in seconds", 1_000_000,
		store.Numbers{Algorithm: store.TokenBucket, Quota: 1_000_003, Window: 30 * 24 * time.Hour, Burst: 30_000_000}),
	spending("token-bucket-queue", "a token bucket in which requests wait up to 20 minutes", 2,
		store.Numbers{Algorithm: store.TokenBucket, Quota: 10, Window: time.Hour, Burst: 5, Wait: 20 * time.Minute}),
	{"divided", "a token bucket of 100 a minute that two clients divide, one of them with two users", divide},
	spending("fixed-window", "a fixed window of 10 per hour", 2,
		store.Numbers{Algorithm: store.FixedWindow, Quota: 10, Window: time.Hour}),
	spending("fixed-window-wide", "a fixed window whose counts take 7 bytes", 1_000_000_000,
		store.Numbers{Algorithm: store.FixedWindow, Quota: 5_000_000_000, Window: time.Hour}),
	spending("fixed-window-jitter", "a fixed window that begins at an offset made of the key", 2,
		store.Numbers{Algorithm: store.FixedWindow, Quota: 10, Window: time.Hour, Jitter: true}),
	spending("fixed-window-first-use", "a fixed window that begins with first use", 2,
		store.Numbers{Algorithm: store.FixedWindow, Quota: 10, Window: time.Hour, FromUse: true}),
	spending("fixed-window-debt", "a fixed window that can owe nothing", 2,
		store.Numbers{Algorithm: store.FixedWindow, Quota: 10, Window: time.Hour, HasDebt: true}),
	spending("fixed-window-debt-wide", "a fixed window that can owe so much that its counts take 7 bytes", 2,
		store.Numbers{Algorithm: store.FixedWindow, Quota: 10, Window: time.Hour, Debt: 5_000_000_000, HasDebt: true}),
	spending("token-bucket-debt", "a token bucket that can owe 100 units", 2,
		store.Numbers{Algorithm: store.TokenBucket, Quota: 10, Window: time.Hour, Debt: 100, HasDebt: true}),
	spending("sliding-window", "a sliding window of 10 per hour", 2,
		store.Numbers{Algorithm: store.SlidingWindow, Quota: 10, Window: time.Hour}),
	spending("sliding-window-wide", "a sliding window with jitter whose counts take 7 bytes", 1_000_000_000,
		store.Numbers{Algorithm: store.SlidingWindow, Quota: 5_000_000_000, Window: time.Hour, Jitter: true}),
	spending("sliding-log", "a sliding log of 10 per hour", 2,
		store.Numbers{Algorithm: store.SlidingLog, Quota: 10, Window: time.Hour}),
	spending("soft", "a limit with a soft limit, which changes nothing of what is stored", 2,
		store.Numbers{Algorithm: store.FixedWindow, Quota: 10, Window: time.Hour, Soft: 5}),
	{"calendar-month", "a month that begins on the 19th at noon, UTC+5:45", func(l *layout) {
		rule := layoutRule("monthly", store.Numbers{Algorithm: store.Calendar, Quota: 10, Calendar: store.Period{
			Unit: store.CalendarMonth, Day: 19, Location: time.FixedZone("+0545", 5*3600+45*60),
		}})
		first := l.take(units(3, rule))
		l.wait(2 * time.Hour)
		l.take(units(8, rule))
		l.refund(first)
		l.take(units(8, rule))
		l.wait(20 * time.Hour) // the next month
		l.take(units(4, rule))
		l.refund(first)
	}},
	{"calendar-day", "a day in UTC", func(l *layout) {
		rule := layoutRule("daily", store.Numbers{Algorithm: store.Calendar, Quota: 10, Calendar: store.Period{
			Unit: store.CalendarDay, Location: time.UTC,
		}})
		l.take(units(3, rule))
		l.charge(units(20, rule))
		l.wait(24 * time.Hour)
		l.take(units(4, rule))
	}},
	{"ledger", "a month that is kept in a book: its use and its position", func(l *layout) {
		calendar := store.Numbers{Algorithm: store.Calendar, Quota: 10, Once: time.Hour, Calendar: store.Period{
			Unit: store.CalendarMonth, Day: 19, Location: time.FixedZone("+0545", 5*3600+45*60),
		}}
		plain := layoutRule("plan", calendar)
		rule, err := counting.LedgerOf(plain)
		if err != nil {
			panic(err)
		}
		order := func(n int64) store.Check {
			c := units(n, rule)
			c.Once = []byte("order-1")
			return c
		}
		l.take(order(3)) // unknown
		l.tell(units(0, rule), 2, 1, 0)
		l.tell(units(0, rule), 9, 2, 0)
		first := l.take(order(3))
		l.take(order(3)) // free
		l.take(units(6, rule))
		l.charge(units(30, rule))
		l.refund(first)
		l.peek(units(1, rule))
		l.take(units(1, plain)) // not by the book
		l.take(units(1, rule))
		l.tell(units(0, rule), 4, 3, 0)
		l.wait(20 * time.Hour) // the next month
		l.refund(first)
		l.tell(units(0, rule), 0, 1, 0)
		l.take(units(5_000_000, rule), store.Check{Key: []byte("user:bob"), Rule: rule, Cost: 1})
		l.tell(store.Check{Key: []byte("user:bob"), Rule: rule}, 7, 131_071, 0)
		l.take(units(4, rule), store.Check{Key: []byte("user:bob"), Rule: rule, Cost: 1})
		l.reset(units(0, rule))
	}},
	{"classes", "limits of which a class of requests may use a part", func(l *layout) {
		for _, n := range []store.Numbers{
			{Algorithm: store.TokenBucket, Quota: 10, Window: time.Hour},
			{Algorithm: store.FixedWindow, Quota: 10, Window: time.Hour},
			{Algorithm: store.SlidingWindow, Quota: 10, Window: time.Hour},
			{Algorithm: store.SlidingLog, Quota: 10, Window: time.Hour},
		} {
			all := layoutRule(n.Algorithm.String(), n)
			n.Burst, n.Whole = 6, 10
			some := layoutRule(n.Algorithm.String(), n)
			l.take(units(5, some))
			l.take(units(2, some))
			l.take(units(4, all))
		}
	}},
	{"concurrency", "5 slots with leases of 10 minutes", func(l *layout) {
		rule := layoutRule("slots", store.Numbers{Algorithm: store.Concurrency, Quota: 5, Window: 10 * time.Minute})
		first := l.take(units(1, rule))
		l.wait(time.Minute)
		second := l.take(units(3, rule))
		l.take(units(2, rule))
		l.wait(6 * time.Minute)
		second = l.renew(second)
		l.wait(6 * time.Minute) // the lease of the first has ended
		l.take(units(1, rule))
		l.renew(first)
		l.refund(second)
		l.peek(units(1, rule))
	}},
	{"penalty", "a limit that blocks from the second denial on", func(l *layout) {
		rule := layoutRule("login", store.Numbers{
			Algorithm: store.FixedWindow, Quota: 2, Window: time.Hour,
			Block: store.Block{After: 2, Within: 10 * time.Minute, For: 30 * time.Minute, Factor: 3, Max: 2 * time.Hour},
		})
		l.take(units(2, rule))
		l.take(units(1, rule)) // a strike
		l.blocks(rule)
		l.wait(time.Minute)
		l.take(units(1, rule)) // blocked
		l.blocks(rule)
		l.wait(31 * time.Minute)
		l.take(units(3, rule))
		l.take(units(3, rule)) // for longer
		l.blocks(rule)
		l.block(5*time.Minute, units(0, rule))
		l.blocks(rule)
		l.peek(units(1, rule))
		l.unblock(units(0, rule))
		l.blocks(rule)
		l.take(units(3, rule))
		l.reset(units(0, rule))
		l.block(time.Hour, units(0, rule)) // a record that stands alone
	}},
	{"block-by-hand", "a limit without a penalty under which an operator blocks", func(l *layout) {
		rule := layoutRule("plain", store.Numbers{Algorithm: store.FixedWindow, Quota: 5, Window: time.Hour})
		l.block(time.Hour, units(0, rule)) // a record that stands alone
		l.take(units(1, rule))
		l.blocks(rule)
		l.unblock(units(0, rule))
		first := l.take(units(2, rule))
		l.block(2*time.Hour, units(0, rule)) // before the limit's own
		l.wait(time.Minute)
		l.take(units(1, rule))
		l.peek(units(1, rule))
		l.take(units(0, rule))
		l.refund(first)
		l.charge(units(3, rule))
		l.blocks(rule)
		l.block(5*time.Minute, units(0, rule)) // in place of the longer one
		l.wait(6 * time.Minute)
		l.take(units(1, rule))
		l.block(time.Hour, units(0, rule))
		l.reset(units(0, rule))
	}},
	{"operations", "operations that are charged once an hour", func(l *layout) {
		rule := layoutRule("orders", store.Numbers{Algorithm: store.FixedWindow, Quota: 10, Window: 2 * time.Hour, Once: time.Hour, Repeats: 2})
		order := func(key string) store.Check {
			c := units(4, rule)
			c.Once = []byte(key)
			return c
		}
		first := l.take(order("order-1"))
		l.wait(time.Minute)
		l.take(order("order-1")) // free
		l.take(order("order-2"))
		l.peek(order("order-2"))
		l.take(order("order-1")) // free
		l.take(order("order-1")) // denied: it is charged again
		l.refund(first)
		l.take(order("order-1"))
		l.reset(order("order-2"))
		l.wait(time.Hour)
		l.take(order("order-1"))
	}},
	{"several-limits", "all limits of one client are one value, in the order of their ids; a second key is decided with it", func(l *layout) {
		rules := []*store.Rule{
			layoutRule("second", store.Numbers{Algorithm: store.TokenBucket, Quota: 60, Window: time.Minute, Burst: 5}),
			layoutRule("minute", store.Numbers{Algorithm: store.FixedWindow, Quota: 100, Window: time.Minute}),
			layoutRule("hour", store.Numbers{Algorithm: store.SlidingWindow, Quota: 200, Window: time.Hour}),
			layoutRule("log", store.Numbers{Algorithm: store.SlidingLog, Quota: 50, Window: time.Hour}),
			layoutRule("month", store.Numbers{Algorithm: store.Calendar, Quota: 1000, Calendar: store.Period{Unit: store.CalendarMonth, Day: 1, Location: time.UTC}}),
			layoutRule("slots", store.Numbers{Algorithm: store.Concurrency, Quota: 3, Window: 10 * time.Minute}),
			layoutRule("guarded", store.Numbers{
				Algorithm: store.SlidingWindow, Quota: 4, Window: time.Hour, Once: time.Hour,
				Block: store.Block{After: 2, Within: time.Hour, For: time.Hour},
			}),
		}
		var checks []store.Check
		for _, rule := range rules {
			checks = append(checks, units(1, rule))
		}
		everyone := layoutRule("everyone", store.Numbers{Algorithm: store.FixedWindow, Quota: 1_000_000, Window: time.Hour})
		checks = append(checks, store.Check{Key: []byte("all"), Rule: everyone, Cost: 1})
		checks[6].Once = []byte("request-1")

		taken := l.take(checks...)
		l.wait(20 * time.Second)
		l.take(checks...) // a repeat of the operation
		checks[6].Once = nil
		l.take(checks...)
		l.take(checks...) // no slot
		l.refund(taken)
		l.wait(20 * time.Second)
		checks[6].Cost = 4
		l.take(checks...) // a strike
		l.take(checks...) // blocked
		l.blocks(rules[6])
		l.reset(checks[1:4]...)
		l.unblock(checks[6])
		l.wait(time.Hour)
		l.take(checks...)
	}},
	{"changed-limits", "a limit whose numbers and algorithm change while its key lives", func(l *layout) {
		for i, n := range []store.Numbers{
			{Algorithm: store.TokenBucket, Quota: 10, Window: time.Hour},
			{Algorithm: store.TokenBucket, Quota: 7, Window: 2 * time.Hour, Burst: 12},
			{Algorithm: store.FixedWindow, Quota: 20, Window: time.Hour},
			{Algorithm: store.FixedWindow, Quota: 40, Window: 2 * time.Hour},
			{Algorithm: store.SlidingWindow, Quota: 30, Window: time.Hour},
			{Algorithm: store.SlidingLog, Quota: 40, Window: time.Hour},
			{Algorithm: store.Calendar, Quota: 50, Calendar: store.Period{Unit: store.CalendarDay, Location: time.UTC}},
			{Algorithm: store.TokenBucket, Quota: 60, Window: time.Hour},
			{Algorithm: store.Concurrency, Quota: 10, Window: time.Hour},
			{Algorithm: store.SlidingWindow, Quota: 70, Window: time.Hour},
		} {
			l.take(units(int64(i+1), layoutRule("changing", n)))
			l.wait(time.Minute)
		}
	}},
	{"holds", "a charge that may still be given back, since its request has keys in several slots", func(l *layout) {
		rule := layoutRule("hourly", store.Numbers{Algorithm: store.FixedWindow, Quota: 3, Window: time.Hour})
		l.tentative(units(2, rule))
		l.tentative(units(1, rule))
		l.wait(5 * time.Second)
		l.take(units(1, rule))
		l.peek(units(1, rule))
	}},
	{"keys", "keys as stores are given them, with limits whose names have all kinds of characters", func(l *layout) {
		for _, name := range []string{"default", "A.b_c-9"} {
			rule := layoutRule(name, store.Numbers{Algorithm: store.FixedWindow, Quota: 10, Window: time.Hour, Jitter: true})
			for _, key := range []string{"all", "ip:192.0.2.7", "ip:2001:db8::/64", "user:a b|apikey#0123456789abcdefghijkl"} {
				l.take(store.Check{Key: []byte(key), Rule: rule, Cost: 1})
			}
		}
	}},
}

// divide has two clients divide a limit: one is over its share, has a minimum and a maximum, and users.
func divide(l *layout) {
	rule := layoutRule("divided", store.Numbers{Algorithm: store.TokenBucket, Quota: 100, Window: time.Minute, Divided: true, Guaranteed: 20})
	of := func(cost int64, share store.Share) store.Check {
		c := units(cost, rule)
		c.Share = &share
		return c
	}
	busy := store.Share{Key: []byte("tenant:busy"), User: []byte("user:1"), Weight: 2, Minimum: 10, Maximum: 90}
	quiet := store.Share{Key: []byte("tenant:quiet"), Weight: 1}
	l.take(of(8, busy))
	l.take(of(30, busy))
	l.take(of(5, quiet))
	busy.User = []byte("user:2")
	charged := l.take(of(20, busy))
	l.take(of(40, busy))
	l.wait(20 * time.Second)
	l.peek(of(1, quiet))
	l.refund(charged)
	l.charge(of(50, busy))
	l.take(of(60, busy))
	l.wait(time.Minute)
	l.take(of(10, quiet))
	l.take(of(10, busy))
}
