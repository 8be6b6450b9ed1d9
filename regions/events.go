package regions

import (
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/regional"
)

// The kinds of events that a store of a region raises, for those who hear of the events of the region's own store: see
// [store.Registry.OnEvent]. Their Node is the name of the region.
const (
	EventHomeAway      store.EventKind = "home away"      // home does not answer: the region has its floors, and what it has leased
	EventHomeBack      store.EventKind = "home back"      // home has answered again
	EventWindowsDiffer store.EventKind = "windows differ" // units went back, since the clocks of region and home differ by Duration; Count units since the last such event
)

const (
	// awayEvery is the least time between a report that home is back and one that it is away again. It is asked each
	// second while it is away, so on a bad link it comes and goes.
	awayEvery = 10 * time.Second

	// clocksEvery is the least time between reports of clocks that differ.
	clocksEvery = time.Minute

	// clocksApart is by how much clocks may differ without a report. Clocks that are kept by NTP differ by less.
	clocksApart = 100 * time.Millisecond
)

// contact is what is said of home. Its zero value is ready to use.
type contact struct {
	mu       sync.Mutex
	class    store.Class // why home last did not answer. Guarded by mu.
	saidAway bool        // that it is away was reported, and not yet that it is back. Guarded by mu.
	saidBack time.Time   // when it was last reported that it is back. Guarded by mu.
	skewed   int64       // units that went back and are not reported yet. Guarded by mu.
	saidSkew time.Time   // when such were last reported. Guarded by mu.
}

// sayAway notes that home did not answer, and reports it, unless that was done or home was back a moment ago.
func (s *Store) sayAway(err error) {
	c, class := &s.contact, store.ErrorOf(err).Class
	c.mu.Lock()
	c.class = class
	said := c.saidAway || !c.saidBack.IsZero() && time.Since(c.saidBack) < awayEvery
	c.saidAway = c.saidAway || !said
	c.mu.Unlock()
	if !said {
		s.registry.Report(store.Event{Kind: EventHomeAway, Node: s.config.Region, Class: class, Err: err})
	}
}

// sayBack reports that home is back, which was away since then on the process's clock, if it was reported away.
func (s *Store) sayBack(since int64) {
	c := &s.contact
	c.mu.Lock()
	say := since != 0 && c.saidAway
	if say {
		c.saidAway, c.saidBack = false, time.Now()
	}
	c.mu.Unlock()
	if say {
		s.registry.Report(store.Event{Kind: EventHomeBack, Node: s.config.Region, Duration: time.Duration(s.now() - since), Over: true})
	}
}

// seen returns what the process knows of home.
func (s *Store) seen() regional.Home {
	h := regional.Home{Trip: time.Duration(s.trip.Load())}
	if since := s.away.Load(); since != 0 {
		s.contact.mu.Lock()
		defer s.contact.mu.Unlock()
		h.Away, h.Class = s.start.Add(time.Duration(since)), s.contact.class
	}
	return h
}

// noteSkew counts units that home charged in another window than that of the region, at a time by its own clock. sent is
// when they were asked for, on the process's clock. It reports clocks that differ by more than can be expected: around
// the end of a window, a lease is in the next one by right.
func (s *Store) noteSkew(p *plan, k *key, ends, sent, at, units int64) {
	p.counts.skewed.Add(units)
	k.mu.Lock()
	until, present := k.until, k.ends == ends
	k.mu.Unlock()
	if !present || until == 0 {
		return // nobody knows any more what the region's clock said
	}
	apart := clocksDiffer(at, ends-(until-sent)/int64(time.Microsecond), ends-(until-s.now())/int64(time.Microsecond))
	c, now := &s.contact, time.Now()
	c.mu.Lock()
	c.skewed += units
	count := c.skewed
	tell := apart >= clocksApart && (c.saidSkew.IsZero() || now.Sub(c.saidSkew) >= clocksEvery)
	if tell {
		c.skewed, c.saidSkew = 0, now
	}
	c.mu.Unlock()
	if tell {
		s.registry.Report(store.Event{Kind: EventWindowsDiffer, Node: s.config.Region, Count: count, Duration: apart})
	}
}

// clocksDiffer returns by how much a clock is off that said at, by one that was between from and to meanwhile. All are
// in microseconds.
func clocksDiffer(at, from, to int64) time.Duration {
	return time.Duration(max(from-at, at-to, 0)) * time.Microsecond
}
