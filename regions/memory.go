package regions

// What home remembers, and what happens when it has forgotten: when its data was lost, or an older replica has taken
// over. Then a pool may look fuller than it is.
//
// Home has a mark, which says when its memory began. Each question for units reads it, in the same call. Who finds none
// sets one: home was emptied. From then on home only learns, for learnFor: regions tell what they have leased for periods
// that are still running, and nothing is leased. So that regions hear of it that need nothing at the moment, processes
// with shares look at the mark every lookEvery.
//
// An older replica has the mark. But a region sees that home knows less of its window than the region has leased, and
// tells it before it takes more. What other regions had leased in the last moments before the failover home learns when
// these ask.

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// learnFor is how long a home that was emptied only learns. It is several times lookEvery, and longer than a
	// question is usually repeated for.
	learnFor = 5 * time.Second

	// lookEvery is how often a process with shares looks at the mark.
	lookEvery = time.Second

	// mostTelling is how many keys home is told of at a time: over a link of 80 ms, some 4,000 while it learns.
	mostTelling = 64
)

// markKey is the key of the mark. No limit has such keys: theirs name a kind.
var markKey = []byte("regions")

// memory is what the process knows of the mark.
type memory struct {
	mark     *store.Rule
	since    atomic.Int64 // when home's memory began, by its own clock, in seconds since the epoch; 0 before it is known
	watching atomic.Bool  // a timer looks at the mark
	closed   atomic.Bool  // none is to look any more
	first    sync.Once
}

// begin has the mark looked at once, when the first leased limit is declared: a home that is new only learns at first.
func (m *memory) begin(look func()) { m.first.Do(look) }

// markRule returns the rule of the mark. It is a window that is long enough to be one: its units are the time at which
// they were charged. burst is the most that it can hold, so that only the first of several processes sets it.
func markRule(burst int64) (*store.Rule, error) {
	r, err := store.NewRule("regions/mark", store.Numbers{Algorithm: store.FixedWindow, Quota: unlimited, Burst: burst, Whole: unlimited, Window: 10 * 365 * 24 * time.Hour})
	return &r, err
}

func (m *memory) init() (err error) {
	m.mark, err = markRule(unlimited)
	return err
}

// check returns the check that reads the mark.
func (m *memory) check() store.Check { return store.Check{Key: markKey, Rule: m.mark} }

// read notes what home says of its mark, and reports whether home remembers: it neither was emptied lately, nor is it
// learning.
func (s *Store) read(ctx context.Context, mark *store.Result) (remembers bool) {
	since, now := unlimited-mark.Remaining, mark.At/int64(time.Second/time.Microsecond)
	if since == 0 {
		if since = s.setMark(ctx, now); since == 0 {
			return false
		}
	}
	before := s.memory.since.Swap(since)
	if before != since && before != 0 {
		go s.tellAll()
	}
	return now < since || now >= since+int64(learnFor/time.Second) // before it: home's clock was set back
}

// setMark sets the mark of a home that has none, and returns it, or 0 if that failed.
func (s *Store) setMark(ctx context.Context, now int64) int64 {
	rule, err := markRule(now)
	if err != nil {
		return 0
	}
	answer := make([]store.Result, 1)
	if err := s.home.Take(ctx, []store.Check{{Key: markKey, Rule: rule, Cost: now}}, answer); err != nil {
		return 0
	}
	if answer[0].Charged {
		return now
	}
	c := s.memory.check() // another process was first
	if err := s.home.Peek(ctx, []store.Check{c}, answer); err != nil {
		return 0
	}
	return unlimited - answer[0].Remaining
}

// watch has a timer look at the mark while the process knows of shares.
func (s *Store) watch() {
	if s.memory.watching.CompareAndSwap(false, true) {
		time.AfterFunc(lookEvery, s.look)
	}
}

// look looks at the mark, and goes on with it while there are shares.
func (s *Store) look() {
	if s.memory.closed.Load() {
		return
	}
	if s.keys.expire(s.now()) == 0 && !s.isAway() {
		if s.memory.watching.Store(false); s.keys.len() > 0 { // another one has come meanwhile
			s.watch()
		}
		return
	}
	s.lookOnce()
	time.AfterFunc(lookEvery, s.look)
}

// lookOnce reads the mark. If home does not answer, the next question for units reads it.
func (s *Store) lookOnce() {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.HomeTimeout)
	defer cancel()
	answer := make([]store.Result, 1)
	err := s.home.Peek(ctx, []store.Check{s.memory.check()}, answer)
	switch {
	case err == nil:
		s.read(ctx, &answer[0])
		s.sayBack(s.away.Swap(0))
	case s.isAway():
		s.sayAway(err)
	}
}

// lose notes that home did not answer. Nothing is leased until it has answered a look, which takes nothing from it: if
// questions arrive and answers don't, each question for units would take some.
func (s *Store) lose(err error) {
	s.away.CompareAndSwap(0, s.now())
	s.sayAway(err)
	s.watch()
}

// isAway reports whether home has not answered since it was last asked.
func (s *Store) isAway() bool { return s.away.Load() != 0 }

// tellAll tells home what the region has leased, for all keys that the process remembers.
func (s *Store) tellAll() {
	ctx, cancel := context.WithTimeout(context.Background(), learnFor)
	defer cancel()
	var next atomic.Int64
	var all sync.WaitGroup
	keys := s.keys.all()
	for range min(mostTelling, len(keys)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(keys)); i = next.Add(1) - 1 {
				of := keys[i]
				of.key.mu.Lock()
				p, ends, running := of.key.plan, of.key.ends, of.key.share > 0 && s.now() < of.key.until
				of.key.mu.Unlock()
				if running {
					s.tell(ctx, p, []byte(of.id.key), ends, 0)
				}
			}
		})
	}
	all.Wait()
}

// tell charges at home what the region has leased for a period, less what home knows of it. One process of the region
// does so, once in a while. If a store does not answer, the next question for units finds that home does not know.
func (s *Store) tell(ctx context.Context, p *plan, name []byte, ends, known int64) {
	turn, err := p.turn(ends)
	if err != nil {
		return
	}
	share, err := p.share(ends)
	if err != nil {
		return
	}
	answer := make([]store.Result, 1)
	if s.local.Take(ctx, []store.Check{{Key: name, Rule: turn, Cost: 1}}, answer) != nil || !answer[0].Charged {
		return // another process has its turn
	}
	if s.local.Peek(ctx, []store.Check{{Key: name, Rule: share}}, answer) != nil {
		return
	}
	missing := unlimited - answer[0].Remaining - known
	if missing > 0 && s.home.Charge(ctx, []store.Check{{Key: name, Rule: p.pool, Cost: missing}}, answer) == nil {
		p.counts.told.Add(missing)
	}
}

// turn returns the rule by which one process of the region has the turn to tell home of a period: once in ten seconds.
func (p *plan) turn(ends int64) (*store.Rule, error) {
	return derive(p.rule, p.rule.Name+turnSuffix+p.class+strconv.FormatInt(ends, 36), func(n *store.Numbers) {
		*n = store.Numbers{Algorithm: store.TokenBucket, Quota: 1, Window: 2 * learnFor}
	})
}

// forgot reports whether home knows less of a window than the region has leased in it: share, and then units. Of a
// token bucket it can't be told, since what was leased refills.
func (p *plan) forgot(r *store.Result, share, units int64) bool {
	return p.rule.Algorithm != store.TokenBucket && p.rule.Algorithm != store.SlidingWindow && p.pool.Burst-r.Remaining < min(share+units, p.pool.Burst)
}
