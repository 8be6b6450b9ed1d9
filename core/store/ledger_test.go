package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

var monthly = Numbers{Algorithm: Calendar, Quota: 100, Calendar: Period{Unit: CalendarMonth, Day: 1, Location: time.UTC}}

func mustRule(t *testing.T, name string, n Numbers) *Rule {
	t.Helper()
	r := must.Get(NewRule(name, n))(t)
	return &r
}

func TestLedgerIsTheTwinOfACalendarRule(t *testing.T) {
	t.Parallel()
	n := monthly
	n.Soft, n.Burst, n.Whole, n.Once = 80, 90, 100, time.Hour
	r := mustRule(t, "plan", n)
	twin := must.Get(r.Ledger())(t)
	want := r.Numbers
	want.Algorithm = Ledger
	if twin.Name != r.Name || twin.ID() != r.ID() || twin.Numbers != want || twin.Integers() != r.Integers() {
		t.Errorf("the twin of %+v is %+v", r, twin)
	}
	if again, _ := r.Ledger(); *again != *twin {
		t.Error("two twins of one rule differ")
	}
	if twin.LongestPeriod() == 0 || twin.PeriodEnd(1) != r.PeriodEnd(1) {
		t.Error("the twin has other periods")
	}

	penalized := monthly
	penalized.Block = Block{After: 1, Within: time.Minute, For: time.Minute}
	for what, n := range map[string]Numbers{
		"only the use of a calendar window": {Algorithm: FixedWindow, Quota: 1, Window: time.Minute},
		"not that of a ledger":              twin.Numbers,
		"a limit with a penalty":            penalized,
	} {
		if _, err := mustRule(t, "refused", n).Ledger(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got error %v", what, err)
		}
	}
	jittered := twin.Numbers
	jittered.Jitter = true
	if _, err := NewRule("plan", jittered); err == nil {
		t.Error("a ledger with jitter was not refused")
	}
}

// A generation whose changes are used up ends: positions never run into the next generation's.
func TestAGenerationEndsBeforeItsChangesDo(t *testing.T) {
	t.Parallel()
	r := must.Get(mustRule(t, "plan", monthly).Ledger())(t)
	now := time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC).UnixMicro()
	states := []State{{Bucket: Bucket{Expires: r.PeriodEnd(now), X: 7, Y: 5<<changeBits | lastChange, Form: r.form()}}}
	var account Account
	checks, results := []Check{{Key: []byte("user:1"), Rule: r, Cost: 1, Account: &account}}, make([]Result, 1)
	Decide(now, checks, states, true)
	Answer(checks, states, results)
	if !results[0].Charged || account.Used != 8 || Generation(account.Position) != 5 {
		t.Fatalf("the last change: %+v, %+v", results[0], account)
	}
	Decide(now, checks, states, true)
	Answer(checks, states, results)
	if results[0].Charged || !results[0].Unknown || account != (Account{}) {
		t.Fatalf("after the last change: %+v, %+v", results[0], account)
	}
	Restore(now, checks, []Restoration{{Used: 8, Generation: 6, Ends: results[0].Ends()}}, states, results)
	if !results[0].Charged || account != (Account{Used: 8, Position: 6<<changeBits | 1}) {
		t.Fatalf("restored: %+v, %+v", results[0], account)
	}
}

func TestRestorationsThatNoStoreCanAnswer(t *testing.T) {
	t.Parallel()
	calendar := mustRule(t, "plan", monthly)
	r := must.Get(calendar.Ledger())(t)
	good := Restoration{Used: 1, Generation: 2, Expect: 1, Ends: 1}
	changed := func(change func(*Restoration)) Restoration {
		f := good
		change(&f)
		return f
	}
	for _, tt := range []struct {
		want string
		rule *Rule
		from Restoration
	}{
		{"", r, good},
		{"", r, changed(func(f *Restoration) { f.Used, f.Generation, f.Expect = maxInteger, MaxGeneration, 0 })},
		{"check without a rule", nil, good},
		{"a calendar window can't be restored", calendar, good},
		{"-1 units", r, changed(func(f *Restoration) { f.Used = -1 })},
		{"units", r, changed(func(f *Restoration) { f.Used = maxInteger + 1 })},
		{"generation 1 can't follow 1", r, changed(func(f *Restoration) { f.Generation = 1 })},
		{"generation 2 can't follow -1", r, changed(func(f *Restoration) { f.Expect = -1 })},
		{"at most 131071", r, changed(func(f *Restoration) { f.Generation = MaxGeneration + 1 })},
		{"when the period ends", r, changed(func(f *Restoration) { f.Ends = 0 })},
	} {
		err := ValidRestore([]Check{{Key: []byte("k"), Rule: tt.rule}}, []Restoration{tt.from}, make([]Result, 1))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.from, err, tt.want)
		}
	}
	if ValidRestore([]Check{{Key: []byte("k"), Rule: r}}, nil, make([]Result, 1)) == nil {
		t.Error("a check without a restoration was not refused")
	}
}

func TestOnRegisterHearsOfAllLimits(t *testing.T) {
	t.Parallel()
	var registry Registry
	declare := func(name string) error {
		return registry.Register(Declaration{Rule: *mustRule(t, name, monthly), Named: true})
	}
	must.OK(t, declare("before"))
	refused := errors.New("refused")
	var heard []string
	err := registry.OnRegister(func(d Declaration) error {
		heard = append(heard, d.Rule.Name)
		if d.Rule.Name != "good" {
			return refused
		}
		return nil
	})
	check.Is(t, "of a limit that was there before", err, refused)
	check.OK(t, declare("good"))
	check.Is(t, "of a limit that is refused", declare("bad"), refused)
	if got := strings.Join(heard, " "); got != "before good bad" {
		t.Errorf("heard of %s", got)
	}
	if n := len(registry.Declarations()); n != 2 {
		t.Errorf("%d limits are declared, want 2: not the refused one", n)
	}
}

// A limiter that was given a ledger by mistake would deny everything: nobody would restore its
// accounts.
func TestALimiterCannotUseALedger(t *testing.T) {
	t.Parallel()
	r := must.Get(mustRule(t, "plan", monthly).Ledger())(t)
	var registry Registry
	if err := registry.Register(Declaration{Rule: *r}); err == nil || !strings.Contains(err.Error(), "give it the calendar limit") {
		t.Errorf("got %v", err)
	}
}
