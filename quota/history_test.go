package quota

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
)

// node is a server of a replicated store, over the functions that stores are made of. It is deterministic:
// a replica is a copy that is made when the test says so.
type node struct {
	mu      sync.Mutex
	now     int64
	history int64
	buckets map[string]counting.Bucket // by key and limit. Guarded by mu.
}

func newNode() *node {
	return &node{now: time.Now().UnixMicro(), history: 1, buckets: make(map[string]counting.Bucket)}
}

// replicated is what a process sees of the store: the node that it is connected to.
type replicated struct {
	*memstore.Store // for all but accounts
	at              atomic.Pointer[node]
}

// to has the process take another node for the primary.
func (s *replicated) to(n *node) { s.at.Store(n) }

func (s *replicated) do(checks []store.Check, change func(now int64, states []counting.State)) error {
	n := s.at.Load()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now++
	states := make([]counting.State, len(checks))
	for i := range checks {
		states[i] = counting.State{Bucket: n.buckets[checks[i].Rule.Name+string(checks[i].Key)], History: n.history}
	}
	change(n.now, states)
	for i := range checks {
		if states[i].BucketChanged {
			n.buckets[checks[i].Rule.Name+string(checks[i].Key)] = states[i].Bucket
		}
	}
	return nil
}

func (s *replicated) decide(checks []store.Check, results []store.Result, take bool) error {
	return s.do(checks, func(now int64, states []counting.State) {
		counting.Decide(now, checks, states, take)
		counting.Answer(checks, states, results)
	})
}

func (s *replicated) Take(_ context.Context, checks []store.Check, results []store.Result) error {
	return s.decide(checks, results, true)
}

func (s *replicated) Peek(_ context.Context, checks []store.Check, results []store.Result) error {
	return s.decide(checks, results, false)
}

func (s *replicated) Refund(_ context.Context, checks []store.Check, results []store.Result) error {
	return s.do(checks, func(now int64, states []counting.State) { counting.Refund(now, checks, states, results) })
}

func (s *replicated) Restore(_ context.Context, checks []store.Check, from []counting.Restoration, results []store.Result) error {
	return s.do(checks, func(now int64, states []counting.State) { counting.Restore(now, checks, from, states, results) })
}

// copy returns a replica that has received everything.
func (n *node) copy() *node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &node{now: n.now, history: n.history, buckets: maps.Clone(n.buckets)}
}

// receive has a replica receive one account of the plan.
func (n *node) receive(from *node, key string) {
	from.mu.Lock()
	bucket, known := from.buckets["plan"+key]
	from.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if known {
		n.buckets["plan"+key] = bucket
	}
}

// promote makes a replica the store's server.
func (n *node) promote() *node {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.history++
	return n
}

// used returns what a node has of an account of the plan.
func (n *node) used(t *testing.T, key string) int64 {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buckets["plan"+key].X
}

// replicatedBook is a book with its view of the store.
type replicatedBook struct {
	*Book
	view *replicated
}

func bookAt(t *testing.T, l ledger.Ledger, n *node) replicatedBook {
	t.Helper()
	view := &replicated{Store: fresh()}
	view.to(n)
	view.OnEvent(func(core.Event) {}) // no log
	b := bookOn(t, l, byHand(view))
	limiterOn(t, b.Store(), monthly(1<<40))
	return replicatedBook{b, view}
}

// charge charges a key, which must be granted.
func (b *replicatedBook) charge(t *testing.T, key string, units int64) {
	t.Helper()
	checks, results := []store.Check{{Key: []byte(key), Rule: ruleOf(t, monthly(1<<40)), Cost: units}}, make([]store.Result, 1)
	if err := b.Store().Take(t.Context(), checks, results); err != nil || !results[0].Charged {
		t.Errorf("%s: %+v, %v", key, results[0], err)
	}
}

// A replica that has not received everything takes over, and reaches higher positions with fewer units. The ledger
// keeps what it had, counts what is charged since, and the store goes on with the sum.
func TestAReplicaReachesAHigherPositionWithFewerUnits(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		primary := newNode()
		a := bookAt(t, l, primary)
		b := bookAt(t, l, primary)
		a.charge(t, "tenant:acme", 5)
		replica := primary.copy()
		a.charge(t, "tenant:acme", 90) // lost, and written
		mustFlushBook(t, a.Book)
		a.charge(t, "tenant:acme", 10) // lost, and known to a process
		replica.promote()
		a.view.to(replica)
		b.view.to(replica)
		for range 7 {
			b.charge(t, "tenant:acme", 1)
		}
		mustFlushBook(t, b.Book, a.Book)
		wantUnits(t, b.Book, 112)
		wantReconciled(t, b.Book, replica, 112)
	})
}

// wantReconciled reconciles twice: afterwards the store and the ledger have want units of tenant:acme, and no difference.
func wantReconciled(t *testing.T, b *Book, n *node, want int64) {
	t.Helper()
	must.Get(b.Reconcile(t.Context(), true, nil))(t)
	mustFlushBook(t, b)
	check.OK(t, errorOf(b.Reconcile(t.Context(), false, func(d Difference) error {
		return fmt.Errorf("%+v", d)
	})))
	wantUnits(t, b, want)
	check.Equal(t, "units in the store", n.used(t, "tenant:acme"), want)
}

func errorOf(_ Reconciliation, err error) error { return err }

// The server that was taken over from goes on for a while, for those who have not heard of it. What it grants counts, too,
// and so does what is granted after it has come back as the replica of the other one.
func TestTwoServersGoOnAtOnce(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		old := newNode()
		a, b := bookAt(t, l, old), bookAt(t, l, old)
		a.charge(t, "tenant:acme", 3)
		b.view.to(old.copy().promote())
		for range 4 {
			a.charge(t, "tenant:acme", 10)
			b.charge(t, "tenant:acme", 100)
			a.charge(t, "tenant:new", 10)
			b.charge(t, "tenant:new", 100)
			mustFlushBook(t, a.Book, b.Book)
		}
		back := b.view.at.Load().copy()
		b.charge(t, "tenant:acme", 1000)
		mustFlushBook(t, b.Book)
		back.promote()
		a.view.to(back)
		b.view.to(back)
		a.charge(t, "tenant:acme", 10_000)
		a.charge(t, "tenant:new", 10_000)
		mustFlushBook(t, a.Book, b.Book)
		check.Equal(t, "units of tenant:new", a.total(t, "plan", "tenant:new"), int64(10_440))
		wantReconciled(t, a.Book, back, 11_443)
	})
}

// A period begins while two servers go on at once, and both begin its accounts by themselves. That is one generation on
// two servers, of which the ledger can keep one side only; and none of it is counted twice.
func TestAPeriodBeginsOnTwoServers(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		old := newNode()
		end := ruleOf(t, monthly(1)).PeriodEnd(old.now)
		a, b := bookAt(t, l, old), bookAt(t, l, old)
		a.charge(t, "tenant:acme", 1)
		next := old.copy().promote()
		b.view.to(next)
		b.charge(t, "tenant:acme", 2)
		mustFlushBook(t, a.Book, b.Book)
		old.now, next.now = end, end
		a.charge(t, "tenant:acme", 100)
		for range 3 {
			b.charge(t, "tenant:acme", 10)
		}
		mustFlushBook(t, a.Book, b.Book)
		a.view.to(next)
		a.charge(t, "tenant:acme", 1000)
		mustFlushBook(t, b.Book, a.Book)
		if got := b.total(t, "plan", "tenant:acme"); got < 3+1030 || got > 3+1130 {
			t.Errorf("the ledger has %d units, and 3 and then 30 + 1000 and 100 were granted", got)
		}
	})
}

// A replica of which the accounts have begun with the period, or not yet, takes over. It begins none by itself: that
// would be the same generation again.
func TestAReplicaBeginsNoPeriod(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		primary := newNode()
		end := ruleOf(t, monthly(1)).PeriodEnd(primary.now)
		b := bookAt(t, l, primary)
		b.charge(t, "tenant:acme", 1)
		b.charge(t, "tenant:late", 1)
		replica := primary.copy()
		primary.now = end
		b.charge(t, "tenant:acme", 100)
		b.charge(t, "tenant:late", 10)
		mustFlushBook(t, b.Book)
		replica.receive(primary, "tenant:acme")
		b.charge(t, "tenant:acme", 100)
		replica.now = end
		b.view.to(replica.promote())
		for range 5 {
			b.charge(t, "tenant:acme", 1)
			b.charge(t, "tenant:late", 1)
		}
		mustFlushBook(t, b.Book)
		check.Equal(t, "units of the account that the replica had", b.total(t, "plan", "tenant:acme"), 1+205)
		check.Equal(t, "units of the account that it had in the period before", b.total(t, "plan", "tenant:late"), 1+15)
	})
}

// A restoration that is late, or is sent again, reaches a server that has taken over since. A generation begins on one
// server only.
func TestARestorationReachesTheNextServer(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		old := newNode()
		h := &hookedLedger{Ledger: l}
		a, b := bookAt(t, h, old), bookAt(t, l, old)
		replica := old.copy()
		h.afterBegin = func([]ledger.Opening, []ledger.Begun) {
			h.afterBegin = nil
			b.charge(t, "tenant:acme", 7) // begins another generation on the old server
			mustFlushBook(t, b.Book)
			a.view.to(replica.promote())
		}
		a.charge(t, "tenant:acme", 20)
		mustFlushBook(t, a.Book, b.Book)
		b.view.to(replica)
		wantReconciled(t, a.Book, replica, 27)
	})
}

// A failover, and the process that had charged what only the replica has is gone. Nobody charges the account any more, and
// Reconcile writes it.
func TestReconcileWritesWhatOnlyAReplicaHas(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		old := newNode()
		killed, b := bookAt(t, l, old), bookAt(t, l, old)
		killed.charge(t, "tenant:acme", 7)
		b.view.to(old.copy().promote())
		var found []Difference
		sum := must.Get(b.Reconcile(t.Context(), true, func(d Difference) error { found = append(found, d); return nil }))(t)
		if sum.Repaired != 1 || found[0].Cause != CauseNotFlushed || found[0].InStore != 7 {
			t.Errorf("%+v: %+v", sum, found)
		}
		wantReconciled(t, b.Book, b.view.at.Load(), 7)
		b.charge(t, "tenant:acme", 1)
		wantWritten(t, b.Book, 8)
	})
}

// Units of an earlier generation are given back, and that is written after the next one has begun.
func TestReconcileFindsAStoreThatIsAhead(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		b, m := byHandOn(t, l, 100)
		takeFrom(t, b, "tenant:acme", 5)
		checks, results := takeFrom(t, b, "tenant:acme", 20)
		mustFlushBook(t, b)
		check.OK(t, b.Store().Refund(t.Context(), checks, results))
		h := &hookedLedger{Ledger: b.ledger}
		other := bookOn(t, h, byHand(m))
		limiterOn(t, other.Store(), monthly(100))
		forget(t, m, "tenant:acme", monthly(100))
		takeFrom(t, other, "tenant:acme", 1)
		mustFlushBook(t, other, b)
		wantUnits(t, b, 6)
		var found []Difference
		sum := must.Get(b.Reconcile(t.Context(), true, func(d Difference) error { found = append(found, d); return nil }))(t)
		if sum.Repaired != 1 || found[0].Cause != CauseAhead || found[0].InStore != 26 || found[0].Used != 6 {
			t.Errorf("%+v: %+v", sum, found)
		}
		check.OK(t, errorOf(b.Reconcile(t.Context(), false, func(d Difference) error { return fmt.Errorf("%+v", d) })))
		var account store.Account
		peek := []store.Check{{Key: []byte("tenant:acme"), Rule: ruleOf(t, monthly(100)), Account: &account}}
		must.OK(t, b.Store().Peek(t.Context(), peek, make([]store.Result, 1)))
		check.Equal(t, "units in the store", account.Used, 6)
	})
}

// Three processes charge and give back, flush, and hear late of failovers to replicas that are behind, while the ledger
// fails before or after its writes. As long as no process dies, the ledger has exactly what was granted in the end, and so
// has the store.
func TestFailoversLoseNothingThatAProcessKnows(t *testing.T) {
	t.Parallel()
	for seed := range long.Rounds[uint64](60, 6000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 27))
			l := &brokenLedger{Ledger: memledger.New(defaultLevels), random: rand.New(rand.NewPCG(seed, 28))}
			l.breaks(float64(seed%3)*0.1, float64(seed%3)*0.1)
			primary := newNode()
			replica := primary.copy()
			var books []replicatedBook
			for range 3 {
				books = append(books, bookAt(t, l, primary))
			}
			rule := ruleOf(t, monthly(1<<40))
			var granted [2]int64
			for range 400 {
				b, i := books[r.IntN(len(books))], r.IntN(len(granted))
				key := fmt.Appendf(nil, "tenant:%d", i)
				b.opener.answered() // no time passes here, after which the ledger is asked again
				switch n := r.IntN(100); {
				case n < 60:
					checks, results := []store.Check{{Key: key, Rule: rule, Cost: 1 + r.Int64N(90)}}, make([]store.Result, 1)
					if b.Store().Take(t.Context(), checks, results) != nil || !results[0].Charged {
						continue
					}
					granted[i] += checks[0].Cost
					if r.IntN(5) == 0 && b.Store().Refund(t.Context(), checks, results) == nil {
						granted[i] -= checks[0].Cost
					}
				case n < 75:
					_ = b.Flush(t.Context())
				case n < 85:
					b.view.to(primary) // hears of it
				case n < 92: // the replica receives some
					replica.receive(primary, string(key))
				case n < 96:
					primary = replica.promote()
					replica = primary.copy()
				default:
					_, _ = b.Reconcile(t.Context(), r.IntN(2) == 0, nil)
				}
			}
			l.breaks(0, 0)
			for _, b := range books {
				b.view.to(primary)
				b.opener.answered()
			}
			for range 2 {
				for _, b := range books {
					mustFlushBook(t, b.Book)
				}
				must.Get(books[0].Reconcile(t.Context(), true, nil))(t)
			}
			check.OK(t, errorOf(books[0].Reconcile(t.Context(), false, func(d Difference) error {
				if d.Cause == CauseForgotten { // nobody has asked for it since the last failover
					return nil
				}
				return fmt.Errorf("%+v", d)
			})))
			for i := range granted {
				key := fmt.Sprintf("tenant:%d", i)
				check.Equal(t, key+": units in the ledger", books[0].total(t, "plan", key), granted[i])
				peek := []store.Check{{Key: []byte(key), Rule: rule}}
				var account store.Account
				peek[0].Account = &account
				must.OK(t, books[0].Store().Peek(t.Context(), peek, make([]store.Result, 1)))
				check.Equal(t, key+": units in the store", account.Used, granted[i])
			}
		})
	}
}

// A server that does not say which history its data is a part of is reported once.
func TestFailoversThatNobodySees(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.User(t, "limits", "~*", "+@all", "-info")
	for user, want := range map[string]int64{"limits": 1, "default": 0} {
		rdb := server.Client(t)
		if user != "default" {
			rdb = server.ClientAs(t, user)
		}
		s := redisstore.New(rdb, redisstore.Config{Prefix: user + ":"})
		var said atomic.Int64
		s.OnEvent(func(e core.Event) {
			if e.Kind == EventFailoversUnseen && strings.Contains(e.Err.Error(), "+info") {
				said.Add(1)
			}
		})
		b := bookOn(t, memledger.New(defaultLevels), byHand(s))
		limiterOn(t, b.Store(), monthly(100))
		takeFrom(t, b, "tenant:acme", 1)
		takeFrom(t, b, "tenant:other", 1)
		check.Equal(t, user+": how often failovers are said to be unseen", said.Load(), want)
	}
}
