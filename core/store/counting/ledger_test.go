package counting

import (
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
	"github.com/weblimit/weblimit/internal/test/must"
)

var monthly = store.Numbers{Algorithm: store.Calendar, Quota: 100, Calendar: store.Period{Unit: store.CalendarMonth, Day: 1, Location: time.UTC}}

func mustRule(t *testing.T, name string, n store.Numbers) *store.Rule {
	t.Helper()
	r := must.Get(store.NewRule(name, n))(t)
	return &r
}

func TestLedgerIsTheTwinOfACalendarRule(t *testing.T) {
	t.Parallel()
	n := monthly
	n.Soft, n.Burst, n.Whole, n.Once = 80, 90, 100, time.Hour
	r := mustRule(t, "plan", n)
	twin := must.Get(LedgerOf(r))(t)
	want := r.Numbers
	want.Algorithm = store.Ledger
	if twin.Name != r.Name || twin.ID() != r.ID() || twin.Numbers != want || twin.Integers != r.Integers {
		t.Errorf("the twin of %+v is %+v", r, twin)
	}
	if again, _ := LedgerOf(r); *again != *twin {
		t.Error("two twins of one rule differ")
	}
	if twin.PeriodEnd(1) != r.PeriodEnd(1) {
		t.Error("the twin has other periods")
	}

	penalized := monthly
	penalized.Block = store.Block{After: 1, Within: time.Minute, For: time.Minute}
	for what, n := range map[string]store.Numbers{
		"only the use of a calendar window": {Algorithm: store.FixedWindow, Quota: 1, Window: time.Minute},
		"not that of a ledger":              twin.Numbers,
		"a limit with a penalty":            penalized,
	} {
		if _, err := LedgerOf(mustRule(t, "refused", n)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got error %v", what, err)
		}
	}
	jittered := twin.Numbers
	jittered.Jitter = true
	if _, err := store.NewRule("plan", jittered); err == nil {
		t.Error("a ledger with jitter was not refused")
	}
}

// A generation whose changes are used up ends: positions never run into the next generation's.
func TestAGenerationEndsBeforeItsChangesDo(t *testing.T) {
	t.Parallel()
	r := must.Get(LedgerOf(mustRule(t, "plan", monthly)))(t)
	now := time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC).UnixMicro()
	states := []State{{Bucket: Bucket{Expires: r.PeriodEnd(now), X: 7, Y: 5<<changeBits | lastChange, Form: formOf(r)}}}
	var account store.Account
	checks, results := []store.Check{{Key: []byte("user:1"), Rule: r, Cost: 1, Account: &account}}, make([]store.Result, 1)
	Decide(now, checks, states, true)
	Answer(checks, states, results)
	if !results[0].Charged || account.Used != 8 || Generation(account.Position) != 5 {
		t.Fatalf("the last change: %+v, %+v", results[0], account)
	}
	Decide(now, checks, states, true)
	Answer(checks, states, results)
	if results[0].Charged || !results[0].Unknown || account != (store.Account{}) {
		t.Fatalf("after the last change: %+v, %+v", results[0], account)
	}
	Restore(now, checks, []Restoration{{Used: 8, Generation: 6, Ends: Ends(&results[0])}}, states, results)
	if !results[0].Charged || account != (store.Account{Used: 8, Position: 6<<changeBits | 1}) {
		t.Fatalf("restored: %+v, %+v", results[0], account)
	}
}

func TestRestorationsThatNoStoreCanAnswer(t *testing.T) {
	t.Parallel()
	calendar := mustRule(t, "plan", monthly)
	r := must.Get(LedgerOf(calendar))(t)
	good := Restoration{Used: 1, Generation: 2, Expect: 1, Ends: 1}
	changed := func(change func(*Restoration)) Restoration {
		f := good
		change(&f)
		return f
	}
	for _, tt := range []struct {
		want string
		rule *store.Rule
		from Restoration
	}{
		{"", r, good},
		{"", r, changed(func(f *Restoration) { f.Used, f.Generation, f.Expect = integer.Max, MaxGeneration, 0 })},
		{"check without a rule", nil, good},
		{"a calendar window can't be restored", calendar, good},
		{"-1 units", r, changed(func(f *Restoration) { f.Used = -1 })},
		{"units", r, changed(func(f *Restoration) { f.Used = integer.Max + 1 })},
		{"generation 1 can't follow 1", r, changed(func(f *Restoration) { f.Generation = 1 })},
		{"generation 2 can't follow -1", r, changed(func(f *Restoration) { f.Expect = -1 })},
		{"at most 131071", r, changed(func(f *Restoration) { f.Generation = MaxGeneration + 1 })},
		{"when the period ends", r, changed(func(f *Restoration) { f.Ends = 0 })},
	} {
		err := ValidRestore([]store.Check{{Key: []byte("k"), Rule: tt.rule}}, []Restoration{tt.from}, make([]store.Result, 1))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.from, err, tt.want)
		}
	}
	if ValidRestore([]store.Check{{Key: []byte("k"), Rule: r}}, nil, make([]store.Result, 1)) == nil {
		t.Error("a check without a restoration was not refused")
	}
}
