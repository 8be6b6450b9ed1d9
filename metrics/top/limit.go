package top

import (
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// The bits of a client's hash. The first are those of the sample; see sample.
const (
	shards     = 16 // by the last 4 bits: a constant, so that samples of all instances have the same
	setShift   = 4
	placeShift = 24
)

func setOf(hash uint64) uint64 { return hash >> setShift }

// limit counts one limit. A request takes the lock of one shard, and nothing else. Whoever needs mu and that of a shard
// takes mu first, as settle does.
type limit struct {
	name   string
	id     uint64 // core.Rule.ID
	shards [shards]shard

	mu    sync.Mutex
	rates rates      // guarded by mu
	rule  *core.Rule // at a decision, refreshed now and then. Guarded by mu.
	mode  bool       // shadow, then. Guarded by mu.
	last  string     // the version, then. Guarded by mu.
}

// shard is a part of the clients of a limit.
type shard struct {
	mu     sync.Mutex
	table  table           // guarded by mu
	sample sample          // guarded by mu
	rates  [outcomes]int64 // what the limit's rates don't have yet. Guarded by mu.
	rule   *core.Rule      // of the last decision. Guarded by mu.
	seen   tick            // the last decision. Guarded by mu.
	shadow bool            // the same

	versions versions // guarded by mu
	_        [64]byte // no two shards in one cache line
}

func newLimit(name string, id uint64, capacity int, s secret) *limit {
	l := &limit{name: name, id: id}
	for i := range l.shards {
		t := &l.shards[i].table
		t.sets = make([]set, capacity/ways/shards)
		t.random.Seed(s.k0, s.k1^uint64(i))
	}
	return l
}

// decision is what one limit said to one request.
type decision struct {
	*core.LimitResult
	key   []byte // nil if there is none, or the store was not asked
	cost  int64
	local bool // decided by this process, in an outage: the limit's numbers are a part of it

	version string // of the configuration that decided
}

// outcome returns what the limit said.
func (d *decision) outcome() outcome {
	switch {
	case d.Allowed:
		return allowed
	case d.Shadow:
		return wouldDeny
	}
	return denied
}

// use returns how many units the client has used, of how many. Of a limit that clients divide these are the units of its share.
func (d *decision) use() (used, of int64) {
	of = max(d.Usual(d.Rule), 1)
	switch d.Standing {
	case store.OverShare, store.UserOver, store.OverMaximum:
		return of, of
	}
	return max(of-d.Remaining, 0), of
}

// note counts a decision.
func (l *limit) note(d *decision, hash uint64, now tick) {
	kind := d.outcome()
	s := &l.shards[hash%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rates[kind]++
	s.seen = now
	if d.version != s.versions.last {
		s.versions.decides(d.version)
	}
	if !d.local {
		s.rule, s.shadow = d.Rule, d.Shadow
	}
	if len(d.key) == 0 || len(d.key) > maxKey {
		return
	}
	used, of := d.use()
	share := float32(used) / float32(of)
	e := s.table.find(hash, d.key)
	if e == nil {
		e = s.table.admit(hash, d.key, now, share, kind != allowed)
	}
	if e != nil {
		e.note(now, kind, share)
		if kind != allowed {
			e.denial = denial{
				at: now, reason: uint8(d.DenialReason()), shadow: d.Shadow, cost: d.cost, remaining: d.Remaining,
				quota: d.Rule.Quota, burst: d.Rule.Burst, window: int64(d.Rule.Window), retryAfter: int64(d.RetryAfter), version: s.versions.at,
				standing: uint8(d.Standing), share: d.Share,
			}
		}
	}
	if d.cost > 0 {
		if length := useWindow(d.Rule); length > 0 {
			s.sample.note(hash, now, length, d.cost)
		} else {
			if kind != allowed {
				used += d.cost // which it wanted
			}
			s.sample.note(hash, now, 0, used)
		}
	}
}

// useWindow returns the windows in which the use of single clients is added up, in ticks. It
// returns 0 if that would take too long, or makes no sense: then what the store says that the
// client has used counts.
func useWindow(rule *core.Rule) tick {
	if rule.Algorithm == store.Concurrency || rule.Algorithm == store.Calendar || rule.Window > 24*time.Hour {
		return 0
	}
	return max(tick(rule.Window*ticksPerSecond/time.Second), 1)
}

// settle moves the decisions of the shards to the rates.
func (l *limit) settle(now tick) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum [outcomes]int64
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for kind := range sum {
			sum[kind] += s.rates[kind]
		}
		s.rates = [outcomes]int64{}
		if s.rule != nil {
			l.rule, l.mode, l.last = s.rule, s.shadow, s.versions.last
			s.rule = nil
		}
		s.mu.Unlock()
	}
	l.rates.seconds.add(now, secondsStep, sum)
	l.rates.minutes.add(now, minutesStep, sum)
}

// snapshot returns what has been counted. Each list has n clients, and the sample atMost.
func (l *limit) snapshot(now tick, n, atMost int) Limit {
	l.settle(now)
	out := Limit{Name: l.name}
	samples := make([]sample, 0, shards)
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		s.table.each(now, func(e *entry) { out.Clients = append(out.Clients, e.client(now, &s.versions)) })
		copied := s.sample
		copied.places = append([]sampled(nil), copied.places...)
		samples = append(samples, copied)
		s.mu.Unlock()
	}
	out.Clients = out.listed(n)
	out.Use = useOf(samples, atMost)
	l.mu.Lock()
	defer l.mu.Unlock()
	out.Rates = Rates{l.rates.seconds.series(secondsStep), l.rates.minutes.series(minutesStep)}
	if l.rule != nil {
		out.Algorithm, out.Quota, out.Burst, out.Window, out.Shadow = l.rule.Algorithm, l.rule.Quota, l.rule.Burst, l.rule.Window, l.mode
		out.Numbers = l.rule.Numbers
		out.Versions = mergeVersions(nil, []string{l.last})
		out.Use.Window, out.Use.most = max(l.rule.Window, tick(1).duration()), useWindow(l.rule) == 0
	}
	return out
}

// idle reports whether the limit has decided nothing for as long as clients are remembered.
func (l *limit) idle(now tick) bool {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		seen := s.seen
		s.mu.Unlock()
		if seen+2*hour > now {
			return false
		}
	}
	return true
}

// highestDenials returns the denials in the last minute of the client with most.
func (l *limit) highestDenials(now tick) (highest int64) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		s.table.each(now, func(e *entry) { highest = max(highest, e.minute.counts(now, minute).Denied) })
		s.mu.Unlock()
	}
	return highest
}

// each calls f for all entries that were seen in the last two hours, rolled.
func (t *table) each(now tick, f func(*entry)) {
	for i := range t.sets {
		s := &t.sets[i]
		for j := range s.hashes {
			if s.hashes[j] == 0 {
				continue
			}
			e := &s.entries[j]
			e.roll(now)
			if e.hour != (window{index: e.hour.index}) {
				f(e)
			}
		}
	}
}

// client returns an entry as others see it. It is rolled.
func (e *entry) client(now tick, known *versions) Client {
	top := e.used[0]
	if e.used[1].share > top.share {
		top = e.used[1]
	}
	c := Client{
		Key: string(e.key), Minute: e.minute.counts(now, minute), Hour: e.hour.counts(now, hour),
		Used: float64(top.share), UsedAt: top.at.time(), Seen: e.seen.time(),
	}
	if d := &e.denial; d.at > 0 {
		c.Denial = Denial{
			At: d.at.time(), Reason: core.Reason(d.reason), Shadow: d.shadow, Cost: d.cost, Remaining: d.remaining,
			Quota: d.quota, Burst: d.burst, Window: time.Duration(d.window), RetryAfter: time.Duration(d.retryAfter), Version: known.of(d.version),
			Standing: store.Standing(d.standing), Share: d.share,
		}
	}
	return c
}

// listed returns the clients that are on one of the lists of length n.
func (l *Limit) listed(n int) []Client {
	if len(l.Clients) <= n {
		return l.Clients
	}
	seen := make(map[*Client]bool, 3*n)
	for _, order := range []func(a, b *Client) int{nearer, moreDenied, busier} {
		for _, c := range l.sorted(order)[:n] {
			seen[c] = true
		}
	}
	list := make([]Client, 0, len(seen))
	for i := range l.Clients {
		if c := &l.Clients[i]; seen[c] {
			list = append(list, *c)
		}
	}
	return list
}
