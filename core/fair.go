package core

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Shares say how clients divide a limit with [Limit.Fair].
type Shares struct {
	// By tells the clients apart, as [Limit.By] does. Those without a key are one client, whatever
	// [Limit.OnMissingKey] says. Required.
	By keyfuncs.Func

	// Within tells users of one client apart: they divide its share evenly among
	// themselves. So whoever can make up users of a client gains nothing. Those without a key are one user.
	// Defaults to none: a client is not divided.
	Within keyfuncs.Func

	// Of returns the numbers of a request's client, such as those of its plan. It must return the same
	// for all requests of a client, or the latest ones hold. Wrong numbers deny the request with ReasonInvalidCost. Defaults to
	// nil: all clients weigh the same, and nothing is guaranteed to any.
	Of func(keyfuncs.Request) Share

	// Guaranteed is how many units are kept free for those who have a Share.Minimum. No minimum is denied while those
	// of all clients are not more than this together. In a full bucket so many units can be used by nobody
	// else; of the rate nothing is kept, so idle capacity is anybody's. Up to the quota, and below the burst. Defaults to 0: a
	// Share.Minimum is then an error.
	Guaranteed int64
}

// Share are the numbers of one client of a limit with [Limit.Fair]. The zero Share is that of a client as all others.
type Share struct {
	// Weight says how large the client's share is beside those of others, from 1 to 1000. Defaults to 1.
	Weight int64

	// Minimum is how many units per window the client can use whatever others do, of what is Guaranteed and no more. Defaults
	// to 0.
	Minimum int64

	// Maximum is how many units per window the client can use, however much is idle. It is a bucket of so many units of
	// its own. At least Minimum, and below the limit itself. Defaults to 0: no bound but that of the limit.
	Maximum int64
}

// Fair has clients divide the limit. While there is room, each of them can use it all. When there is not
// enough for all, those who have used more than their share are denied, and the others are not:
//
//	core.PerSecond(5000).By(keyfuncs.Everyone()).Named("capacity").Fair(core.Shares{
//		By: keyfuncs.APIKey("X-API-Key"),
//		Of: func(r keyfuncs.Request) core.Share { return core.Share{Weight: weightOf(r)} },
//	})
//
// The limit itself is as exact as without Fair, over all processes: it is never exceeded, and a minimum is never denied
// while what is Guaranteed holds them all. Shares are max-min fair by weight: who wants less than its share gets
// what it wants, and the rest is divided among those who want more. They are looked for in rounds of one window. A new
// client gets its share at once, at first an equal one, and shares are within some percent of the exact ones after some four windows. What
// is left over, a 256th at least, is for whoever comes first.
//
// A client that is over its share must leave half of the burst to the others, so a single busy client gets the whole
// rate, but half of the burst at once. The burst must be half of the quota at least. Share and standing of a
// request are in its [LimitResult], and a denial says by when the client's share has room. That is a hint: shares change.
//
// Whoever can make up clients can take the limit, so By must be something that costs, such as an account. Of many users or keys of
// one account let By be the account, and Within the user. 100,000 clients in a window, and 10,000
// users of each, have shares of their own; those beyond get what others leave.
//
// With [Limit.Scale] the limit follows the load, and in an overload those over their shares are shed first. [Limiter.AllowKey] has no
// client, and asks for a key that nobody divides. A limit with Fair is a token bucket, or a [Concurrent] limit with [Limit.Wait], in which shares
// say who comes next. It can have no Tiers, Penalty, WarnAt, Soft
// and SlowDown, be none of [First], and not be leased to regions.
//
// With [Limit.Wait], requests of this process that wait for the limit come next by share: clients by weight and cost, the users of one in
// turn, a higher class of [Limit.Classes] before a lower one, which gets at least one of eight. Nobody starves: of requests with cost 1,
// at most (j+1)·W/w + W + K + 1 are served before one that has j of its client in front of it in the same class, where W is the weight of all
// K clients that wait and w that of its own. In a full line, a request takes the place of the client with most places, unless
// its own client has as many: that other request is denied at once. A request waits in the line of the first limit with Fair that it is subject to.
func (l Limit) Fair(shares Shares) Limit {
	l.settings.set(setFair)
	l.fair = &shares
	return l
}

// validateFair checks what goes with Fair.
func (l *Limit) validateFair() error {
	s := l.fair
	if s == nil {
		return nil
	}
	if err := s.validate(); err != nil {
		return err
	}
	switch n := &l.numbers; {
	case l.tiers != nil:
		return errors.New("Fair and Tiers can't be combined: clients divide one limit, and Shares.Of gives them different parts of it")
	case n.hasPenalty:
		return errors.New("Fair and Penalty can't be combined: the denials of one client would block all of them")
	case l.inChoice > 0:
		return errors.New("an alternative of First can't have Fair")
	case l.warnAt != nil || l.slow.most > 0 || n.hasSoft:
		return errors.New("Fair can't be combined with WarnAt, Soft and SlowDown, which go by how much of a limit is used: what a client has left says nothing about that")
	case n.Algorithm == store.Concurrency && l.wait == 0:
		return errors.New("the shares of a concurrency limit say who of those who wait comes next: add Wait")
	case n.Algorithm == store.Concurrency && s.Guaranteed > 0:
		return errors.New("nothing is guaranteed of a concurrency limit: leave out Guaranteed")
	}
	return nil
}

func (s *Shares) validate() error {
	if err := s.By.Err(); err != nil {
		return fmt.Errorf("Fair: By: %w", err)
	}
	if s.Guaranteed < 0 {
		return fmt.Errorf("Fair: Guaranteed must be at least 0, got %d", s.Guaranteed)
	}
	if err := s.Within.Err(); s.hasUsers() && err != nil {
		return fmt.Errorf("Fair: Within: %w", err)
	}
	if s.Guaranteed > 0 && s.Of == nil {
		return errors.New("Fair: Guaranteed without Of: nobody has a minimum")
	}
	return nil
}

// fairness is Shares as a limiter uses it.
type fairness struct {
	by, within keyfuncs.Func
	users      bool // within is set
	of         func(keyfuncs.Request) Share
}

// hasUsers reports whether Within is set, if only to a key that can't work.
func (s *Shares) hasUsers() bool { return !errors.Is(s.Within.Err(), keyfuncs.Func{}.Err()) }

func (s *Shares) ready() *fairness {
	return &fairness{by: s.By, within: s.Within, users: s.hasUsers(), of: s.Of}
}

// repeated is limit.repeated for the client and its user.
func (f *fairness) repeated(r keyfuncs.Request) string {
	if what := f.by.Repeated(r); what != "" || !f.users {
		return what
	}
	return f.within.Repeated(r)
}

// askShare adds the client to the last check. It returns a reason to deny the request, or ReasonUndecided.
func (c *call) askShare(l *limit, r keyfuncs.Request) Reason {
	check := &c.checks[len(c.checks)-1]
	n := store.Share{Weight: 1}
	if l.fair.of != nil {
		c.reading = keyfuncs.Reading{Request: r}
		of := l.fair.of(&c.reading)
		if c.reading.Repeated() != "" {
			return ReasonAmbiguousKey
		}
		if of.Weight != 0 {
			n.Weight = of.Weight
		}
		n.Minimum, n.Maximum = min(of.Minimum, check.Rule.Guaranteed), of.Maximum
		if n.Weight < 1 || n.Weight > store.MaxWeight || of.Minimum < 0 || of.Minimum > l.rule.Guaranteed || of.Maximum < 0 || of.Maximum > store.AllParts || of.Maximum > 0 && of.Maximum < of.Minimum {
			return ReasonInvalidCost
		}
	}
	var presence keyfuncs.Presence
	if n.Key, presence = c.askKey(l.fair.by, r); presence == keyfuncs.Ambiguous {
		return ReasonAmbiguousKey
	}
	if l.fair.users {
		if n.User, presence = c.askKey(l.fair.within, r); presence == keyfuncs.Ambiguous {
			return ReasonAmbiguousKey
		}
	}
	c.shares = append(c.shares, shareOf{l, n})
	if check.Rule.Divided { // else it says who of those who wait is next, of which the store knows nothing
		check.Share = &c.shares[len(c.shares)-1].Share
	}
	return ReasonUndecided
}

// shareLocally gives the client of a check the part of its numbers that one process grants in an outage: of a maximum at least the
// request's cost, as of the limit.
func (c *call) shareLocally(check *Check, l *limit) {
	if check.Share == nil {
		return
	}
	n, replicas := *check.Share, int64(l.replicas)
	n.Minimum /= replicas // rounded down, so that what is guaranteed holds them all
	n.Maximum = max(integer.CeilDiv(n.Maximum, replicas), min(check.Cost, n.Maximum))
	c.shares = append(c.shares, shareOf{l, n})
	check.Share = &c.shares[len(c.shares)-1].Share
}

// shareOf is the client of a request under a limit with Fair.
type shareOf struct {
	limit *limit
	store.Share
}

// shareUnder returns the client of the request under a limit, or nil.
func (c *call) shareUnder(l *limit) *store.Share {
	for i := range c.shares {
		if c.shares[i].limit == l {
			return &c.shares[i].Share
		}
	}
	return nil
}

// askKey returns what a function says of a request, or the key of those without one.
func (c *call) askKey(f keyfuncs.Func, r keyfuncs.Request) ([]byte, keyfuncs.Presence) {
	start := len(c.keys)
	keys, presence := f.Append(c.keys, r)
	if presence != keyfuncs.Present {
		keys = append(keys[:start], missingKey...)
	}
	c.keys = keys
	return keys[start:len(keys):len(keys)], presence
}

// ofShare notes what a client is told of its part of the limit beside what the store says.
func (r *LimitResult) ofShare(check *Check) {
	most := check.Share.Maximum
	if most == 0 {
		return
	}
	if r.Remaining = min(r.Remaining, most); r.Standing == store.OverMaximum {
		r.Remaining = min(r.Remaining, max(check.Cost-1, 0))
	}
}

// overShare reports whether the binding limit denies the request, since its client or user has more than a share of it, and that
// may be told.
func (d *Decision) overShare() bool {
	b, ok := d.Binding()
	return ok && !b.Allowed && b.told() && b.Standing.IsOver()
}

// sameShare reports whether two checks are of one client, and one user of it, with the same numbers.
func sameShare(a, b *store.Share) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Weight == b.Weight && a.Minimum == b.Minimum && a.Maximum == b.Maximum && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.User, b.User)
}

// cloneShare returns a copy of a check's share that outlives the call.
func cloneShare(n *store.Share) *store.Share {
	if n == nil {
		return nil
	}
	clone := *n
	clone.Key, clone.User = bytes.Clone(n.Key), bytes.Clone(n.User)
	return &clone
}
