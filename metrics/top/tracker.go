package top

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
)

// Tracker is a [core.Observer] that counts which clients use their limits most. Set it as
// core.Config.Observe of any number of limiters. It is safe for concurrent use.
type Tracker struct {
	core.NopObserver

	config Config
	state  atomic.Pointer[state] // nil after Close
	clock  atomic.Int64          // a tick, set in the background: reading the time costs as much as all the rest

	health health
	kinds  kinds

	mu sync.Mutex // held while limits are added and while the state changes

	stop context.CancelFunc
	done chan struct{} // closed when the background work has ended

	publishing struct {
		mu  sync.Mutex
		err error // of the last round. Guarded by mu.
	}
}

// state is all that has been counted under one secret.
type state struct {
	secret    secret
	text      []byte                   // of the secret
	limits    atomic.Pointer[[]*limit] // in order of their ids; replaced as a whole
	uncounted atomic.Int64
}

func newState(text []byte) *state {
	s := &state{secret: secretOf(text), text: text}
	s.limits.Store(new([]*limit))
	return s
}

// New returns a tracker, and starts a goroutine that keeps its time and publishes snapshots,
// until Close. It panics if the config holds a value that makes no sense; its fields say
// which.
func New(config Config) *Tracker {
	t := newTracker(config)
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	go t.work(ctx)
	return t
}

// newTracker returns a tracker whose clock does not move.
func newTracker(config Config) *Tracker {
	t := &Tracker{config: config.validate(), done: make(chan struct{})}
	t.state.Store(newState(newSecret()))
	t.clock.Store(int64(tickOf(time.Now())))
	return t
}

// Instance returns the name under which this process publishes.
func (t *Tracker) Instance() string { return t.config.Instance }

// Decided implements [core.Observer]. It allocates nothing for clients that are known.
func (t *Tracker) Decided(_ context.Context, o *core.Observation) {
	state := t.state.Load()
	if state == nil {
		return
	}
	now := tick(t.clock.Load())
	results, version := o.Decision.Results(), o.Decision.Version()
	for i := range results {
		if results[i].PassedOver {
			continue // another limit of its choice was charged, or would be: this one has neither allowed nor denied anything
		}
		d := decision{LimitResult: &results[i], key: o.Key(i), cost: o.Cost(i), local: o.Decision.Reason == core.ReasonOutageLocal, version: version}
		l := state.limit(d.Rule.ID(), d.Rule.Name)
		if l == nil {
			if l = t.add(state, d.Rule.ID(), d.Rule.Name); l == nil {
				state.uncounted.Add(1)
				continue
			}
		}
		l.note(&d, max(state.secret.hash(d.key), 1), now)
	}
}

// limit returns a limit by the id of its rule and its name, or nil if it is not known.
func (s *state) limit(id uint64, name string) *limit {
	limits := *s.limits.Load()
	low, high := 0, len(limits)
	for low < high {
		if middle := (low + high) / 2; limits[middle].id < id {
			low = middle + 1
		} else {
			high = middle
		}
	}
	for ; low < len(limits) && limits[low].id == id; low++ {
		if limits[low].name == name {
			return limits[low]
		}
	}
	return nil
}

// add adds a limit. If there are too many, it takes the place of one that decides nothing any more, such as one that
// a policy file has no longer; if there is none, add returns nil.
func (t *Tracker) add(s *state, id uint64, name string) *limit {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := s.limit(id, name); l != nil { // added meanwhile
		return l
	}
	limits := *s.limits.Load()
	if len(limits) == t.config.Limits {
		now := tick(t.clock.Load())
		gone := slices.IndexFunc(limits, func(l *limit) bool { return l.idle(now) })
		if gone < 0 {
			return nil
		}
		limits = slices.Concat(limits[:gone], limits[gone+1:])
	}
	l := newLimit(name, id, t.config.Capacity, s.secret)
	at, _ := slices.BinarySearchFunc(limits, l.id, func(l *limit, id uint64) int { return cmp.Compare(l.id, id) })
	limits = slices.Insert(slices.Clone(limits), at, l)
	s.limits.Store(&limits)
	return l
}

// Snapshot returns what this process has counted. It takes some milliseconds per limit: it is for
// admin pages, not for requests.
func (t *Tracker) Snapshot() *Snapshot { return t.snapshot(t.config.Capacity, shards*sampleSize) }

// snapshot returns what this process has counted: lists of n clients, and samples of atMost.
func (t *Tracker) snapshot(n, atMost int) *Snapshot {
	now := tick(t.clock.Load())
	s := &Snapshot{Instances: []Instance{{Name: t.config.Instance, At: now.time(), Health: t.health.now()}}}
	state := t.state.Load()
	if state == nil {
		return s
	}
	s.Uncounted = state.uncounted.Load()
	group := state.secret.group()
	for _, l := range *state.limits.Load() {
		out := l.snapshot(now, n, atMost)
		t.kinds.complete(&out)
		out.Use.group = group
		s.Limits = append(s.Limits, out)
		s.Instances[0].Versions = mergeVersions(s.Instances[0].Versions, out.Versions)
	}
	slices.SortFunc(s.Limits, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// HighestDenials returns how often this process has denied, in the last minute, the client that
// it denied most often, over all limits. It holds no key, and is meant for an alert. Limits in
// shadow mode deny nobody. A client whose requests are spread over n instances has about
// n times as many denials.
func (t *Tracker) HighestDenials() float64 {
	state := t.state.Load()
	if state == nil {
		return 0
	}
	now, highest := tick(t.clock.Load()), int64(0)
	for _, l := range *state.limits.Load() {
		highest = max(highest, l.highestDenials(now))
	}
	return float64(highest)
}
