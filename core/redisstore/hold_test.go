package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// tentative charges a check as the first of several slots, and stops before the other
// slots have answered.
func tentative(t *testing.T, s *Store, c core.Check) {
	t.Helper()
	ps := s.jobsFor(nil, take, []core.Check{c}, nil)
	ps[0].hold(0)
	must.OK(t, s.run(t.Context(), s.sealAll(ps)))
	results := make([]core.Result, 1)
	if err := ps[0].readAnswer([]core.Check{c}, results); err != nil || !results[0].Charged {
		t.Fatalf("%+v, %v", results, err)
	}
}

// wantFinalDenial asks for a unit of the key that these tests use, and expects a denial that is due to no charge that may be given back.
func wantFinalDenial(t *testing.T, what string, s *Store, rule *core.Rule) {
	t.Helper()
	if r, err := takeOne(t.Context(), s, "plain", rule); err != nil || r.Allowed || r.RetryAfter <= maxTentativeWait {
		t.Errorf("%s: %+v, %v; want a final denial", what, r, err)
	}
}

// removeHold removes the hold of a charge that was made then.
func removeHold(t *testing.T, s *Store, c core.Check, taken int64) {
	t.Helper()
	j := newJob(refund, 0)
	j.AddKeys([]core.Check{c})
	j.hold(taken)
	must.OK(t, s.run(t.Context(), s.sealAll([]*job{j})))
}

// cachingAt returns a store that caches denials, and its clock.
func cachingAt(t *testing.T) (s *Store, now *atomic.Int64) {
	now = new(atomic.Int64)
	now.Store(1_800_000_000_000_000)
	s = New(redistest.Shared(t).Client(t), Config{Prefix: redistest.Prefix(t), DenialCache: DenialCache{Age: time.Hour}})
	s.clock = now.Load
	return s, now
}

// A process dies between two slots. As far as other processes know, its charge may still
// be given back. So they don't tell their clients that the limit is used up until that is
// certain.
func TestAChargeThatNobodyConfirmsIsTentativeForTwoSeconds(t *testing.T) {
	t.Parallel()
	s, now := cachingAt(t)
	rule, blocking := mustRule(core.PerHour(1).FixedWindow().Named("one")),
		mustRule(core.PerHour(1).FixedWindow().Named("blocking").Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour}))
	plain := core.Check{Key: []byte("plain"), Rule: &rule, Cost: 1}
	guarded := core.Check{Key: []byte("guarded"), Rule: &blocking, Cost: 1}
	ask := func(c core.Check) core.Result {
		t.Helper()
		r, err := takeOne(t.Context(), s, string(c.Key), c.Rule)
		if err != nil || r.Charged {
			t.Fatalf("%+v, %v; want a denial", r, err)
		}
		return r
	}
	tentative(t, s, plain)
	tentative(t, s, guarded)
	for range 3 {
		if r := ask(plain); r.Allowed || r.Cached || r.RetryAfter <= 0 || r.RetryAfter > maxTentativeWait {
			t.Errorf("denied for a tentative charge: %+v", r)
		}
		if r := ask(guarded); r.Allowed || r.Blocked {
			t.Errorf("denied for a tentative charge under a penalty: %+v", r)
		}
	}
	now.Add((2 * script.HoldTime).Microseconds())
	if r := ask(plain); r.Allowed || r.RetryAfter < time.Minute {
		t.Errorf("denied for a charge that stays: %+v", r)
	}
	if r := ask(plain); !r.Cached {
		t.Errorf("denied again for a charge that stays: %+v", r)
	}
	if r := ask(guarded); !r.Blocked {
		t.Errorf("denied for a charge that stays, under a penalty: %+v", r)
	}
}

// Requests in several slots leave no hold, whether granted or denied.
func TestDecidedRequestsLeaveNoHolds(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.SharedCluster(t).Client(t), redistest.Prefix(t)
	s := New(client, Config{Prefix: prefix, DenialCache: DenialCache{Disabled: true}})
	wide, narrow := mustRule(core.PerDay(100).Named("wide")), mustRule(core.PerDay(5).Named("narrow"))
	for range 20 {
		checks := []core.Check{
			{Key: []byte("a"), Rule: &wide, Cost: 1},
			{Key: []byte("b"), Rule: &wide, Cost: 1, Shadow: true},
			{Key: []byte("c"), Rule: &narrow, Cost: 1},
		}
		must.OK(t, s.Take(t.Context(), checks, make([]core.Result, 3)))
	}
	s.cleanup.wait(context.Background())
	for _, key := range []string{"a", "b", "c"} {
		value, err := client.Get(t.Context(), prefix+"{"+key+"}").Result()
		if err != nil || strings.Contains(value, script.HoldHead) {
			t.Errorf("%s holds %q, %v", key, value, err)
		}
	}
}

// A key that is blocked has a charge of another limit that may still be given back: the block lasts all the same, and so
// the client is told to wait for its end.
func TestABlockLastsBesideATentativeCharge(t *testing.T) {
	t.Parallel()
	s, _ := cachingAt(t)
	const lasts = 3 * time.Hour
	window, wide := core.PerHour(1).FixedWindow(), mustRule(core.PerDay(100).Named("wide"))
	for name, c := range map[string]struct {
		rule  core.Rule
		block func(check core.Check) error
	}{
		"by a penalty": {mustRule(window.Named("guarded").Penalty(core.Block{After: 1, Within: time.Hour, For: lasts})), func(check core.Check) error {
			return s.Take(t.Context(), []core.Check{check}, make([]core.Result, 1))
		}},
		"by hand": {mustRule(window.Named("plain")), func(check core.Check) error {
			return s.Block(t.Context(), []core.Check{check}, lasts)
		}},
	} {
		check := core.Check{Key: []byte(name), Rule: &c.rule, Cost: 1}
		must.OK(t, s.Take(t.Context(), []core.Check{check}, make([]core.Result, 1)))
		must.OK(t, c.block(check))
		tentative(t, s, core.Check{Key: check.Key, Rule: &wide, Cost: 1})
		results := make([]core.Result, 2)
		must.OK(t, s.Take(t.Context(), []core.Check{check, {Key: check.Key, Rule: &wide, Cost: 1}}, results))
		if r := results[0]; !r.Blocked || r.RetryAfter != lasts || r.Window != lasts {
			t.Errorf("%s: %+v, want a block of %v", name, r, lasts)
		}
	}
}

// Redis's clock is set back after a tentative charge: denials of the key are final as soon as they
// were by the earlier clock, and not hours later.
func TestAChargeIsTentativeForTwoSecondsIfTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	s, now := cachingAt(t)
	rule := mustRule(core.PerHour(1).FixedWindow().Named("one"))
	plain := core.Check{Key: []byte("plain"), Rule: &rule, Cost: 1}
	tentative(t, s, plain)
	now.Add(-3 * time.Hour.Microseconds())
	wantFinalDenial(t, "set back by hours", s, &rule)
}

// A hold is removed when it is over, and then Redis's clock is set back: the hold is gone for good, so that
// denials of the key are final.
func TestAHoldThatIsRemovedTooLateDoesNotComeBack(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"alone": false, "beside another limit": true} {
		s, now := cachingAt(t)
		rule, wide := mustRule(core.PerHour(1).FixedWindow().Named("one")), mustRule(core.PerDay(100).Named("wide"))
		plain := core.Check{Key: []byte("plain"), Rule: &rule, Cost: 1}
		if other {
			must.Get(takeOne(t.Context(), s, "plain", &wide))(t)
		}
		taken := now.Load()
		tentative(t, s, plain)
		now.Add((2 * script.HoldTime).Microseconds())
		removeHold(t, s, plain, taken)
		now.Add(-(2 * script.HoldTime).Microseconds())
		wantFinalDenial(t, name, s, &rule)
	}
}

// Redis's clock is set back between a charge and the removal of its hold, and another charge comes in between. Each removal
// removes a hold, whatever window the record has it in by then: what is left would make denials of the key tentative.
func TestHoldsAreRemovedAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		back, on, after time.Duration // before the other charge, before the removals, before the denial
	}{
		{600 * time.Millisecond, 0, 800 * time.Millisecond},
		{time.Hour, 0, 0},
		{time.Hour, time.Second, 0},
		{time.Hour, 1500 * time.Millisecond, 100 * time.Millisecond},
	} {
		s, now := cachingAt(t)
		now.Add(500_000)
		rule, wide := mustRule(core.PerDay(1).FixedWindow().Named("one")), mustRule(core.PerDay(100).Named("wide"))
		plain, other := core.Check{Key: []byte("plain"), Rule: &rule, Cost: 1}, core.Check{Key: []byte("plain"), Rule: &wide, Cost: 1}
		first := now.Load()
		tentative(t, s, plain)
		second := now.Add(-c.back.Microseconds())
		tentative(t, s, other)
		now.Add(c.on.Microseconds())
		removeHold(t, s, other, second)
		removeHold(t, s, plain, first)
		now.Add(c.after.Microseconds())
		wantFinalDenial(t, fmt.Sprintf("set back by %v, then on by %v and %v", c.back, c.on, c.after), s, &rule)
	}
}

// A key keeps nothing but a record under other numbers of its limit, of which nothing is used, and a hold that is over. A
// denied request drops both, and does not have Redis keep the key until a time that is past.
func TestAHoldThatIsOverKeepsNoKey(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	s := New(client, Config{Prefix: prefix})
	before, after, never := mustRule(core.PerHour(10).FixedWindow().FromFirstUse().Named("window")), mustRule(core.Per(10, 2*time.Hour).FixedWindow().FromFirstUse().Named("window")),
		mustRule(core.PerHour(1).Named("never"))
	must.Get(takeOne(t.Context(), s, "k", &before))(t)
	value := must.Get(client.Get(t.Context(), prefix+"{k}").Result())(t)
	over := binary.LittleEndian.AppendUint64(nil, uint64(time.Now().Add(-5*time.Second).UnixMicro()))[:7]
	value = value[:len(value)-4] + "\x00\x00\x00\x00" + script.HoldHead + string(over) + "\x01\x00\x00\x00\x00\x00\x00\x00"
	must.OK(t, client.Set(t.Context(), prefix+"{k}", value, time.Minute).Err())
	results := make([]core.Result, 2)
	err := s.Take(t.Context(), []core.Check{{Key: []byte("k"), Rule: &after, Cost: 1}, {Key: []byte("k"), Rule: &never, Cost: 2}}, results)
	if err != nil || results[0].Charged || results[1].Allowed {
		t.Errorf("%+v, %v; want a denial", results, err)
	}
	if left, err := client.Get(t.Context(), prefix+"{k}").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("the key keeps %q, %v", left, err)
	}
}
