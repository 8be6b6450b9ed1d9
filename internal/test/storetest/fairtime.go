package storetest

import (
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// lastFair is the end of a sequence's time, in the year 2050: records of windows of ten years can last for a century more.
const lastFair = 80 * 365 * 24 * 3600 * 1_000_000

// pass moves the clock, often to a time at which something changes.
func (s *fairSequence) pass() {
	w := s.rules[pick(s.rand, fairNames)].Window
	d := time.Duration(0)
	switch s.rand.IntN(8) {
	case 0:
		d = s.wait
	case 1:
		d = max(s.wait-time.Microsecond, 0)
	case 2:
		d = time.Duration(s.rand.Int64N(1000)) * time.Microsecond
	case 3:
		d = w / time.Duration(1+s.rand.Int64N(5000))
	case 4:
		d = w
	case 5:
		d = time.Duration(s.rand.Int64N(int64(min(70*w, 1000*time.Hour))))
	default:
		d = time.Duration(s.rand.Int64N(int64(w)))
	}
	d = d.Truncate(time.Microsecond)
	if s.Micros()+d.Microseconds() > lastFair {
		d = 0
	}
	s.Advance(d)
	s.log("%v later", d)
}

// setBack sets the clock back. What is over is written anew before: a store may have dropped it or not, and it would count again.
func (s *fairSequence) setBack() {
	s.Helper()
	for _, name := range fairNames {
		for _, key := range fairKeys {
			if s.rules[name].Divided {
				s.renewShares(s.rules[name], key)
			}
			s.forgetStale(s.rules[name], key)
		}
	}
	d := time.Duration(s.rand.Int64N(int64(2 * s.rules[pick(s.rand, fairNames)].Window)))
	if s.rand.IntN(2) == 0 {
		d = time.Duration(s.rand.Int64N(int64(time.Second)))
	}
	d = min(d.Truncate(time.Microsecond), time.Duration(s.Micros()-firstMicros)*time.Microsecond)
	s.Advance(-d)
	s.log("set back by %v", d)
}

// renewShares has all clients ask of which something is over.
func (s *fairSequence) renewShares(r *core.Rule, key string) {
	s.Helper()
	for _, client := range fairClients {
		for _, user := range fairUsers {
			n := store.Share{Key: []byte(client), Weight: 1}
			if user != "" {
				n.User = []byte(user)
			}
			c := core.Check{Key: []byte(key), Rule: r, Cost: 1, Share: &n}
			names := s.model.shareOf(&c, s.Micros(), 1).names
			stale := false
			for _, i := range []int{0, 2} {
				d, known := s.model.divisions[names[i]]
				p, knownPart := s.model.parts[names[i+1]]
				stale = stale || known && d.gone <= s.Micros() || knownPart && p.gone <= s.Micros()
			}
			if stale {
				s.decideAll([]core.Check{c}, true)
			}
		}
	}
}

// forgetStale resets a bucket that is over in part, and operations that are over.
func (s *fairSequence) forgetStale(r *core.Rule, key string) {
	s.Helper()
	with := store.Numbers{Algorithm: store.TokenBucket, Quota: 1, Window: time.Hour, Once: time.Hour, Block: store.Block{After: 1, Within: time.Hour, For: time.Hour}}
	once, err := store.NewRule(r.Name, with)
	if err != nil {
		s.Fatal(err)
	}
	c := core.Check{Key: []byte(key), Rule: &once}
	var checks []core.Check
	if s.model.isStale(r.Name, key, s.Micros()) {
		checks = append(checks, c)
	}
	for _, op := range onces {
		c.Once = []byte(op)
		if mark, ok := s.model.marks[markKey(&c)]; ok && mark.until <= s.Micros() {
			checks = append(checks, c)
		}
	}
	for _, c := range checks {
		s.log("forget %s %s once %q", key, r.Name, c.Once)
		s.model.reset([]core.Check{c})
		delete(s.model.buckets, key+"|"+r.Name)
		s.erase(c)
	}
}
