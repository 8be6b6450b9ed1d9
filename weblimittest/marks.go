package weblimittest

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// mark is what the test wants of clients of a limit. It takes effect with a client's next check, as
// of the time at which the test asked for it: only then are the client's key and the numbers of its
// tier known.
type mark struct {
	limit string
	keys  map[string]bool // nil for all clients
	block time.Duration   // 0 to exhaust the limit
	at    int64           // when the test asked for it: microseconds since the epoch
	met   map[string]bool // the keys for which it has taken effect
	call  string          // how the test has asked for it
}

// Exhaust uses up all that clients have left of the limit with that name at this moment. It comes
// back as time goes on, as after a client's own requests, and Retry-After says when.
//
// The clients are those with the given keys, or all clients if there are none. A key is written as
// by [keyfuncs.Encode], "ip:192.0.2.1" for an address of [keyfuncs.ClientIP]; [Store.Keys] has those
// of earlier requests.
//
// Call it after the application has made its limits: a name that no limit has ends the test.
func (s *Store) Exhaust(limit string, keys ...string) {
	s.t.Helper()
	s.mark(&mark{limit: limit, call: fmt.Sprintf("Exhaust(%s)", quoted(append([]string{limit}, keys...)))}, keys)
}

// BlockFor blocks clients of the limit with that name for d, as an operator does, or its
// [core.Limit.Penalty] with clients who exceed it again and again. Clients are chosen as for [Store.Exhaust].
func (s *Store) BlockFor(limit string, d time.Duration, keys ...string) {
	s.t.Helper()
	call := fmt.Sprintf("BlockFor(%s)", strings.Join(append([]string{quoted([]string{limit}), d.String()}, quotedEach(keys)...), ", "))
	if d <= 0 {
		s.t.Fatalf("weblimittest: %s: a block must last", call)
	}
	s.mark(&mark{limit: limit, block: d, call: call}, keys)
}

func (s *Store) mark(m *mark, keys []string) {
	s.t.Helper()
	if problem := s.problem(m); problem != "" {
		s.t.Fatalf("weblimittest: %s: %s", m.call, problem)
	}
	m.at, m.met = s.clock.micros(), map[string]bool{}
	if len(keys) > 0 {
		m.keys = make(map[string]bool, len(keys))
		for _, key := range keys {
			m.keys[stored(key)] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = append(s.marks, m)
}

// problem returns why a mark can have no effect, or "".
func (s *Store) problem(m *mark) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch known := s.known[m.limit]; {
	case !known && len(s.known) == 0:
		return "no limit uses this store yet: make the application first"
	case !known:
		return "no such limit on this store, which has " + quoted(slices.Sorted(maps.Keys(s.known)))
	}
	return ""
}

// stored returns the store's key for a key that a test gives. Keys that are hashed are left as
// Keys shows them.
func stored(key string) string {
	hashed := keyfuncs.AppendKey(nil, "") // "key#" and a hash
	if len(key) == len(hashed) && strings.HasPrefix(key, string(hashed[:4])) {
		return key
	}
	return string(keyfuncs.AppendKey(nil, key))
}

// meet has the marks take effect that a check is the first to meet. The caller holds s.mu.
func (s *Store) meet(check *core.Check) {
	limit, key := check.Rule.Name, string(check.Key)
	for _, m := range s.marks {
		if m.limit != limit || m.met[key] || m.keys != nil && !m.keys[key] {
			continue
		}
		m.met[key] = true
		s.at.Store(m.at)
		if err := s.apply(m, core.Check{Key: check.Key, Rule: check.Rule}); err != nil {
			s.t.Errorf("weblimittest: %s: %v", m.call, err)
		}
		s.at.Store(0)
	}
}

// apply has a mark take effect for one client. The caller holds s.mu and has set s.at.
func (s *Store) apply(m *mark, check core.Check) error {
	ctx, checks := context.Background(), []core.Check{check}
	if m.block > 0 {
		return s.memory.Block(ctx, checks, m.block)
	}
	results := make([]core.Result, 1)
	if check.Rule.Wait > 0 { // the queue may hold many times the burst
		if err := s.memory.Peek(ctx, checks, results); err != nil {
			return err
		}
		if checks[0].Cost = drains(check.Rule, check.Rule.Wait-results[0].ResetAfter); checks[0].Cost > 0 {
			if err := s.memory.Charge(ctx, checks, results); err != nil {
				return err
			}
		}
	}
	for cost := check.Rule.Burst; cost > 0; {
		checks[0].Cost = cost
		if err := s.memory.Peek(ctx, checks, results); err != nil {
			return err
		}
		if !results[0].Allowed {
			cost /= 2
		} else if err := s.memory.Take(ctx, checks, results); err != nil {
			return err
		}
	}
	return nil
}

// drains returns how many whole units of a limit come back in d, 0 if d is negative. The limit's
// queue bounds d, so the number is a small one.
func drains(rule *core.Rule, d time.Duration) int64 {
	high, low := bits.Mul64(uint64(max(d, 0)), uint64(rule.Quota))
	units, _ := bits.Div64(high, low, uint64(rule.Window))
	return int64(units)
}

// markedUnder returns a check for each client that a mark names, for the limits of rules.
func (s *Store) markedUnder(rules []*core.Rule) (checks []core.Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rule := range rules {
		for _, m := range s.marks {
			if m.limit != rule.Name {
				continue
			}
			for key := range m.keys {
				checks = append(checks, core.Check{Key: []byte(key), Rule: rule})
			}
		}
	}
	return checks
}

// unmet says which marks no request has met.
func (s *Store) unmet() (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.marks {
		var missing []string
		for key := range m.keys {
			if !m.met[key] {
				missing = append(missing, key)
			}
		}
		if len(missing) == 0 && (m.keys != nil || len(m.met) > 0) {
			continue
		}
		slices.Sort(missing)
		seen := "no request was counted by the limit"
		if keys := slices.Sorted(maps.Keys(s.asked[m.limit])); len(keys) > 0 {
			seen = "the limit has counted by " + quoted(keys[:min(len(keys), 10)])
		}
		for _, key := range missing {
			texts = append(texts, fmt.Sprintf("weblimittest: %s: no request with the key %q came; %s", m.call, key, seen))
		}
		if m.keys == nil {
			texts = append(texts, fmt.Sprintf("weblimittest: %s: no request came; %s", m.call, seen))
		}
	}
	return texts
}

func quoted(names []string) string { return strings.Join(quotedEach(names), ", ") }

func quotedEach(names []string) []string {
	each := make([]string, len(names))
	for i, name := range names {
		each[i] = fmt.Sprintf("%q", name)
	}
	return each
}
