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
	n := monthly
	n.Algorithm = Ledger
	r := mustRule(t, "plan", n)
	var registry Registry
	if err := registry.Register(Declaration{Rule: *r}); err == nil || !strings.Contains(err.Error(), "give it the calendar limit") {
		t.Errorf("got %v", err)
	}
}
