package script

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
)

// A take that the script must not decide by its short cut is not sent as a plain one.
func TestPlainTakes(t *testing.T) {
	t.Parallel()
	rules := func(n int, numbers store.Numbers) (rules []*store.Rule) {
		for i := range n {
			rules = append(rules, rule(t, fmt.Sprint("n", i), numbers))
		}
		return rules
	}
	bucket := store.Numbers{Algorithm: store.TokenBucket, Quota: 60, Window: time.Minute}
	lower, fixed, once := bucket, bucket, bucket
	lower.Whole = 100
	fixed.Algorithm = store.FixedWindow
	once.Once = time.Hour
	group := func(op Op, rules []*store.Rule, change func(g *Group, checks []store.Check)) *Group {
		var checks []store.Check
		for _, r := range rules {
			checks = append(checks, store.Check{Key: []byte("k"), Rule: r, Cost: 1})
		}
		var g Group
		g.Begin(op)
		if change != nil {
			change(&g, checks)
		}
		for i := range checks {
			g.Add(i, &checks[i], 0)
		}
		return &g
	}
	for name, c := range map[string]struct {
		group *Group
		want  bool
	}{
		"two buckets":     {group(Take, rules(2, bucket), nil), true},
		"twenty buckets":  {group(Take, rules(20, bucket), nil), true},
		"one bucket":      {group(Take, rules(1, bucket), nil), true},
		"too many":        {group(Take, rules(200, bucket), nil), false},
		"a peek":          {group(Peek, rules(2, bucket), nil), false},
		"a charge":        {group(Charge, rules(2, bucket), nil), false},
		"fixed windows":   {group(Take, rules(2, fixed), nil), false},
		"the lower class": {group(Take, rules(2, lower), nil), false},
		"shadow mode":     {group(Take, rules(2, bucket), func(_ *Group, checks []store.Check) { checks[1].Shadow = true }), false},
		"no cost":         {group(Take, rules(2, bucket), func(_ *Group, checks []store.Check) { checks[0].Cost = 0 }), false},
		"two keys":        {group(Take, rules(3, bucket), func(_ *Group, checks []store.Check) { checks[2].Key = []byte("l") }), false},
		"a mark":          {group(Take, rules(2, once), func(g *Group, checks []store.Check) { g.AddMark(0, &checks[0], 0) }), false},
		"penalties": {group(Take, rules(2, bucket), func(g *Group, checks []store.Check) {
			g.AddPenalty(0, &checks[0], time.Minute)
			g.GuardChecks()
		}), false},
	} {
		length := len(c.group.data)
		c.group.Seal("p:")
		if got := c.group.data[0]&isPlain != 0; got != c.want || c.group.whole > 0 != c.want {
			t.Errorf("%s: plain %t, length of the answer %d, want plain %t", name, got, c.group.whole, c.want)
		}
		if added := c.group.asked - length; !c.want && added != 2 {
			t.Errorf("%s: %d bytes are added, want 2", name, added)
		}
	}
	held := group(Take, rules(2, bucket), nil)
	held.AddHolds(1, 0)
	if held.Seal("p:"); held.whole > 0 {
		t.Error("a take that leaves a hold is a plain one")
	}
}

// The answer to a plain take that was decided at once has each bucket as it was before.
func TestBucketsBeforeAPlainTake(t *testing.T) {
	t.Parallel()
	hour := rule(t, "hour", store.Numbers{Algorithm: store.TokenBucket, Quota: 1000, Window: time.Hour})
	odd := rule(t, "odd", store.Numbers{Algorithm: store.TokenBucket, Quota: 997, Window: time.Hour})
	buckets := map[*store.Rule]counting.Bucket{
		hour: {Expires: 1_800_000_000_000_000},
		odd:  {Expires: 1_800_000_000_000_001, X: 515},
	}
	for _, rules := range [][]*store.Rule{{hour, odd}, {hour}, {odd}} {
		var g Group
		var checks []store.Check
		g.Begin(Take)
		for i, r := range rules {
			checks = append(checks, store.Check{Key: []byte("k"), Rule: r, Cost: 1})
			g.Add(i, &checks[i], 0)
		}
		g.Seal("p:")
		answer := "\xfe\x01"
		if len(rules) > 1 {
			answer += "\x02"
		}
		for _, i := range g.Checks {
			if len(rules) > 1 {
				answer += string(appendHead(nil, rules[i], rules[i].Integers)[1:])
			}
			answer += string(appendInt(nil, buckets[rules[i]].Expires, 7))
			if rules[i] == odd {
				answer += string(appendInt(nil, buckets[odd].X, 2))
			}
		}
		if whole, granted := g.IsWhole(answer); !whole || !granted || g.CheckLength(answer) != nil {
			t.Fatalf("%d buckets: % x is not the answer to a plain take", len(rules), answer)
		}
		if whole, granted := g.IsWhole("\xfe\x00" + answer[2:]); !whole || granted {
			t.Errorf("%d buckets: a denial is taken for a grant", len(rules))
		}
		if whole, _ := g.IsWhole(answer[:len(answer)-1]); whole || g.CheckLength(answer+"\x00") == nil {
			t.Errorf("%d buckets: an answer of another length is taken for one", len(rules))
		}
		seen := 0
		for i, bucket := range g.Before(answer, checks) {
			ints, want := rules[i].Integers, buckets[rules[i]]
			want.Form = counting.Form{Algorithm: store.TokenBucket, Tick: ints.Tick, Unit: ints.Unit, Rate: ints.Rate}
			if seen++; bucket.Expires != want.Expires || bucket.X != want.X || bucket.Form != want.Form {
				t.Errorf("check %d of %d: %+v, want %+v", i, len(rules), *bucket, want)
			}
		}
		check.Equal(t, "buckets", seen, len(rules))
	}
}
