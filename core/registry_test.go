package core_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Trap 10: two limits of one store that share a name by accident would merge
// their counters, or count twice.
func TestNamesOfOneStore(t *testing.T) {
	t.Parallel()
	unkeyed := core.PerHour(10).Named("a")
	base := unkeyed.By(keyfuncs.ClientIP())
	const (
		different = `weblimit: limit "a": the store has a different limit of this name: `
		named     = `; give each its own with Named`
		twice     = `weblimit: limit "default": declared twice on one store; give each its own name with Named, or both the same one to share a quota`
	)
	for _, tt := range []struct {
		name          string
		first, second core.Limit
		want          string // "" if both may live on one store
	}{
		{"equal and named on purpose", base, base, ""},
		{"equal but for the cost", base, base.Cost(5), ""},
		{"equal but for what happens in an outage", base, base.OnOutage(core.Deny), ""},
		{"equal numbers, said otherwise", base, core.Per(10, 60*time.Minute).Burst(10).By(keyfuncs.ClientIP()).Named("a"), ""},
		{"the default name, given on purpose", base.Named("default"), base.Named("default"), ""},
		{"names that differ in case", base, everyone(7).Named("A"), ""},
		{"another quota", base, core.PerHour(11).By(keyfuncs.ClientIP()).Named("a"), different + "quota 10 and 11" + named},
		{"another window", base, core.PerMinute(10).By(keyfuncs.ClientIP()).Named("a"), different + "window 1h0m0s and 1m0s" + named},
		{"another burst", base, base.Burst(11), different + "burst 10 and 11" + named},
		{"another algorithm", base, base.SlidingWindow(), different + "algorithm token bucket and sliding window" + named},
		{"jitter", base.FixedWindow(), base.FixedWindow().Jitter(), different + "jitter false and true" + named},
		{"a debt", base, base.Debt(5), different + "debt of one burst and 5" + named},
		{"the default debt, chosen", base, base.Debt(10), different + "debt of one burst and 10" + named},
		{"first use", base.FixedWindow(), base.FromFirstUse(), different + "from first use false and true" + named},
		{"equal penalties", base.Penalty(core.Block{After: 3, Within: time.Hour, For: time.Minute}), base.Penalty(core.Block{After: 3, Within: time.Hour, For: time.Minute, Factor: 2, Max: 24 * time.Hour}), ""},
		{"another calendar", core.PerMonth(10, time.UTC).By(keyfuncs.ClientIP()).Named("a"), core.PerCalendarDay(10, time.UTC).By(keyfuncs.ClientIP()).Named("a"), different + "calendar months from day 1 in UTC and days in UTC" + named},
		{"a penalty", base, base.Penalty(core.Block{After: 3, Within: time.Hour, For: time.Minute}), different + "penalty none and (after 3 within 1h0m0s for 1m0s, factor 2, max 24h0m0s)" + named},
		{"another penalty", base.Penalty(core.Block{After: 3, Within: time.Hour, For: time.Minute}), base.Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}), different + "penalty (after 3 within 1h0m0s for 1m0s, factor 2, max 24h0m0s) and (after 3 within 1h0m0s for 1h0m0s, factor 2, max 24h0m0s)" + named},
		{"another key", base, unkeyed.By(keyfuncs.Everyone()), different + "key ip and all" + named},
		{"a key more", base, unkeyed.By(keyfuncs.ClientIP(), keyfuncs.Route()), different + "key ip and join(ip,route)" + named},
		{"keys in another order", unkeyed.By(keyfuncs.Route(), keyfuncs.ClientIP()), unkeyed.By(keyfuncs.ClientIP(), keyfuncs.Route()), different + "key join(route,ip) and join(ip,route)" + named},
		{"equal and not named", everyone(10), everyone(10), twice},
		{"only the first one named on purpose", everyone(10).Named("default"), everyone(10), twice},
		{"only the second one named on purpose", everyone(10), everyone(10).Named("default"), twice},
		{"different and not named", everyone(10), everyone(11), `weblimit: limit "default": the store has a different limit of this name: quota 10 and 11; give each its own with Named`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := core.NewMemory()
			limiterOn(t, store, tt.first)
			_, err := core.New(core.Config{Store: store, Limits: []core.Limit{tt.second}})
			if got := fmt.Sprint(err); got != tt.want && (err != nil || tt.want != "") {
				t.Errorf("got error\n\t%s, want\n\t%s", got, tt.want)
			}
			limiterOn(t, core.NewMemory(), tt.second) // on a store of its own all of them are fine
		})
	}
}

func TestRegistrationIsAllOrNone(t *testing.T) {
	t.Parallel()
	store := core.NewMemory()
	limiterOn(t, store, everyone(1).Named("taken"))
	_, err := core.New(core.Config{Store: store, Limits: []core.Limit{everyone(1).Named("new"), everyone(2).Named("taken")}})
	if err == nil {
		t.Fatal("a name that is taken was registered")
	}
	limiterOn(t, store, everyone(3).Named("new")) // fails if the failed limiter left its own "new" behind
}

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	store := core.NewMemory()
	atOnce(16, func(i int) {
		for n := range 20 {
			if _, err := core.New(core.Config{Store: store, Limits: []core.Limit{
				everyone(1).Named("shared"), everyone(1).Named(fmt.Sprintf("own-%d-%d", i, n)),
			}}); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestLimitersOfOneStoreShareBucketsByName(t *testing.T) {
	t.Parallel()
	store, _ := at()
	ctx := context.Background()
	read := everyone(10).Named("api")
	a, b := limiterOn(t, store, read), limiterOn(t, store, read.Cost(4), everyone(10).Named("write"))

	wantDecision(t, "a read", a.Allow(&request{}), true, core.ReasonWithinLimit, 9)
	wantDecision(t, "a write", b.Allow(&request{}), true, core.ReasonWithinLimit, 5, 9)
	wantDecision(t, "a second write", b.Allow(&request{}), true, core.ReasonWithinLimit, 1, 8)
	wantDecision(t, "a third write", b.Allow(&request{}), false, core.ReasonLimitExceeded, 1, 8)
	wantDecision(t, "a second read", a.Allow(&request{}), true, core.ReasonWithinLimit, 0)
	wantDecision(t, "another key", a.AllowKey(ctx, "other", 1), true, core.ReasonWithinLimit, 9)
}

// Limits are told apart by a number that is a hash of the name. Of 32 bits, one of three files of 60,000
// rules was refused, and two services with one Redis counted in one bucket.
func TestTwoNamesOfOneHash(t *testing.T) {
	t.Parallel()
	names := []string{"costarring", "liquid", "declinate", "macallums", "altarage", "zinke"} // by twos, of one FNV-1a of 32 bits
	// Two names each: of so many, 60,000, one of three files had two of one number.
	for i := range long.Rounds(30_000, 200_000) {
		names = append(names, fmt.Sprintf("rule-%d", i), fmt.Sprintf("tenants.%d.requests-per-minute", i))
	}
	ids := make(map[uint64]string, len(names))
	for _, name := range names {
		rule, err := store.NewRule(name, store.Numbers{Algorithm: store.FixedWindow, Quota: 1, Window: time.Second})
		must.OK(t, err)
		if other, ok := ids[rule.ID()]; ok {
			t.Fatalf("%q and %q have one number", name, other)
		}
		ids[rule.ID()] = name
		if id, penalty := rule.ID(), counting.PenaltyID(&rule); id >= 1<<52 || penalty < 1<<52 || penalty >= counting.ReservedID-1 {
			t.Fatalf("%q: %x and %x: numbers of limits, of penalties and of a store's own records must differ", name, id, penalty)
		}
	}
	s := core.NewMemory() // in which all have a place
	for few := range slices.Chunk(names[:1000], store.MaxChecks) {
		limits := make([]core.Limit, 0, len(few))
		for _, name := range few {
			limits = append(limits, everyone(10).Named(name))
		}
		core.ForLimits(s, limits)
	}
}

// An admin page sees the limits of all limiters on a store, whichever way they were made.
func TestDeclarationsAreTheLimitsOfAllLimiters(t *testing.T) {
	t.Parallel()
	s := core.NewMemory()
	core.ForLimits(s, []core.Limit{everyone(3).Named("b").Shadow(), everyone(4).Named("c")})
	core.ForLimits(s, []core.Limit{core.PerHour(10).By(keyfuncs.ClientIP()).Named("a")})
	var got []string
	for _, d := range s.Registry().Declarations() {
		got = append(got, fmt.Sprint(d.Rule.Name, " ", d.Rule.Quota, " ", d.Keys, " ", d.Shadow))
	}
	check.Slices(t, "declarations", got, []string{"a 10 ip false", "b 3 all true", "c 4 all false"})
}
