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
		"one bucket":      {group(Take, rules(1, bucket), nil), false},
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
		if got := c.group.data[0]&isPlain != 0; got != c.want || c.group.value > 0 != c.want {
			t.Errorf("%s: plain %t, length of a value %d, want plain %t", name, got, c.group.value, c.want)
		}
		if added := c.group.asked - length; !c.want && added != 2 {
			t.Errorf("%s: %d bytes are added, want 2", name, added)
		}
	}
	held := group(Take, rules(2, bucket), nil)
	held.AddHolds(1, 0)
	if held.Seal("p:"); held.value > 0 {
		t.Error("a take that leaves a hold is a plain one")
	}
}

// The answer to a plain take that was decided at once has each bucket as it was before.
func TestBucketsBeforeAPlainTake(t *testing.T) {
	t.Parallel()
	rules := []*store.Rule{
		rule(t, "hour", store.Numbers{Algorithm: store.TokenBucket, Quota: 1000, Window: time.Hour}),
		rule(t, "odd", store.Numbers{Algorithm: store.TokenBucket, Quota: 997, Window: time.Hour}),
	}
	var g Group
	var checks []store.Check
	g.Begin(Take)
	for i, r := range rules {
		checks = append(checks, store.Check{Key: []byte("k"), Rule: r, Cost: 1})
		g.Add(i, &checks[i], 0)
	}
	g.Seal("p:")
	answer := "\xfe\x01\x01"
	for _, i := range g.Checks {
		head := appendHead(nil, rules[i], rules[i].Integers)
		answer += string(appendInt(head[1:], 1_800_000_000_000_000+int64(i), 7))
		if i == 1 {
			answer += string(appendInt(nil, 515, 2))
		}
	}
	if whole, granted := g.IsWhole(answer); !whole || !granted || g.CheckLength(answer) != nil {
		t.Fatalf("% x is not the answer to a plain take", answer)
	}
	if whole, granted := g.IsWhole("\xfe\x00" + answer[2:]); !whole || granted {
		t.Error("a denial is taken for a grant")
	}
	if whole, _ := g.IsWhole(answer[:len(answer)-1]); whole || g.CheckLength(answer+"\x00") == nil {
		t.Error("an answer of another length is taken for one")
	}
	seen := 0
	for i, bucket := range g.Before(answer, checks) {
		ints := rules[i].Integers
		want := counting.Bucket{Expires: 1_800_000_000_000_000 + int64(i), X: 515 * int64(i), Form: counting.Form{
			Algorithm: store.TokenBucket, Tick: ints.Tick, Unit: ints.Unit, Rate: ints.Rate,
		}}
		if seen++; bucket.Expires != want.Expires || bucket.X != want.X || bucket.Form != want.Form {
			t.Errorf("check %d: %+v, want %+v", i, *bucket, want)
		}
	}
	check.Equal(t, "buckets", seen, 2)
}
