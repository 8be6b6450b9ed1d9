package redisstore

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
)

// applications is the patience of stores outside of tests.
var applications = usualPatience

// Servers of tests share their processors with other tests and with compilers, and may stand still for
// seconds. Only tests of outages want a short time to be the end.
func init() {
	usualPatience = patience{time.Minute, time.Minute, time.Minute, time.Minute, time.Minute, time.Minute}
}

// AroundRemovals has around call what removes the holds of granted requests. The store must be new.
func (s *Store) AroundRemovals(around func(remove func())) { s.cleanup.around = around }

// BeAsPatientAsUsual gives the store's own calls the time that they have outside of tests.
func (s *Store) BeAsPatientAsUsual() { s.patience = applications }

// NewAt returns a store that decides at the times of a test's clock instead of Redis's.
func NewAt(client redis.UniversalClient, clock func() int64, config ...Config) *Store {
	s := New(client, config...)
	s.clock, s.denials = clock, nil // the cache goes by the process's own clock
	s.serverClock.own = clock
	return s
}

// NewWithClocks is NewAt with another clock for the process.
func NewWithClocks(client redis.UniversalClient, server, process func() int64, config ...Config) *Store {
	s := NewAt(client, server, config...)
	s.serverClock.own = process
	return s
}

// SlotOf is the hash slot of a Redis key, to compare with a server's.
func SlotOf(key string) int { return hashSlotOfKey([]byte(key)) }

// mustRule returns the numbers of a limit that is known to be good.
func mustRule(l core.Limit) core.Rule {
	r, err := l.Rule()
	if err != nil {
		panic(err)
	}
	return r
}

// Hears reports whether the store hears what other processes give back, and has dropped what it had
// cached before it did so for the first time.
func (s *Store) Hears() bool {
	return s.listener.hears.Load() && (s.denials == nil || s.denials.epochs[denialEpochs-1].Load() > 0)
}

// Listens reports whether the store has a goroutine that listens.
func (s *Store) Listens() bool { return s.listener.running.Load() }

// SetListenTimes sets the times of a store's listener: when it tries a silent connection, how
// long it waits between two, when it reports a loss, and when it ends.
func (s *Store) SetListenTimes(ping, pause, loss, idle time.Duration) {
	s.listener.times = listenTimes{ping: ping, pause: pause, loss: loss, again: pause, idle: idle}
}

// Epoch returns a number that changes when the store hears that units were given back to a key.
func (s *Store) Epoch(key string) uint32 { return s.denials.epochOf([]byte(key)).Load() }

// Held returns how many units of a check's key the store has taken ahead and could spend now.
func (s *Store) Held(c core.Check) int64 { return s.prefetched.Held(&c) }

// ForgetRecentDenials has the next request of several slots charge them before it knows that it is denied.
func (s *Store) ForgetRecentDenials() {
	for i := range s.recentDenials {
		s.recentDenials[i].Store(0)
	}
}

// ReceiveLater makes a denial one whose answer arrives a while from now, as seen by a goroutine
// that looks for the denial and was stopped after it had read the time.
func (s *Store) ReceiveLater(checks []core.Check, later time.Duration) {
	request := s.denials.fingerprint(checks)
	set := s.denials.set(request)
	for i := range set {
		if e := set[i].Load(); e != nil && e.request == request {
			set[i].Store(&cachedDenial{request: e.request, received: monotonic() + int64(later), expires: e.expires, epoch: e.epoch, results: e.results})
		}
	}
}
