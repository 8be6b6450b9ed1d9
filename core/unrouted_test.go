package core_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// nowhere is a request whose route is not known.
func nowhere(method string) *request { return &request{method: method, route: "?"} }

// placed says how to place a limiter.
type placed struct {
	request
	remedy string
}

func (p *placed) RouteRemedy() string { return p.remedy }

// Trap 52: each place that asks a condition takes the safe side of one that has no
// answer, and logs it once.
func TestTrap52ConditionsOnRoutesThatAreNotKnown(t *testing.T) {
	t.Parallel()
	login, elsewhere := keyfuncs.Routes("POST /login"), keyfuncs.Routes("POST /elsewhere")
	const remedy = " where the limiter stands, so %s; put the limiter behind the router, or on the route"
	const condition = "limit login: its condition on routes can't be answered"
	applies := condition + fmt.Sprintf(remedy, "the limit applies")
	anybody := core.PerHour(5).FixedWindow().Named("login")
	five := anybody.By(keyfuncs.Everyone())
	for _, tt := range []struct {
		name    string
		config  core.Config
		method  string
		allowed int // of 100
		advice  string
	}{
		{"When", core.Config{Limits: []core.Limit{five.When(login)}}, "POST", 5, applies},
		{"When, twice", core.Config{Limits: []core.Limit{five.When(login).When(elsewhere)}}, "POST", 5, applies},
		{"When, of another method", core.Config{Limits: []core.Limit{five.When(login)}}, "GET", 100, ""},
		{"Unless", core.Config{Limits: []core.Limit{five.Unless(login)}}, "POST", 5, applies},
		{"Unless, of another method", core.Config{Limits: []core.Limit{five.Unless(login)}}, "GET", 5, ""},
		{"When not all", core.Config{Limits: []core.Limit{five.When(keyfuncs.All(login, keyfuncs.Methods("PUT")))}}, "POST", 100, ""},
		{"When any", core.Config{Limits: []core.Limit{five.When(keyfuncs.Any(login, keyfuncs.Methods("POST")))}}, "POST", 5, ""},
		{
			"Bypass",
			core.Config{Limits: []core.Limit{five}, Bypass: []keyfuncs.Condition{login}},
			"POST", 5,
			"Config.Bypass: a condition on routes can't be answered" + fmt.Sprintf(remedy, "it exempts nothing"),
		},
		{
			"Bypass, and another that holds",
			core.Config{Limits: []core.Limit{five}, Bypass: []keyfuncs.Condition{login, keyfuncs.Methods("POST")}},
			"POST", 100,
			"Config.Bypass: a condition on routes can't be answered" + fmt.Sprintf(remedy, "it exempts nothing"),
		},
		{
			"KeepFree",
			core.Config{Limits: []core.Limit{five.KeepFree(0.4, login)}},
			"POST", 3,
			"limit login: the condition on routes of its KeepFree or Classes can't be answered" + fmt.Sprintf(remedy, "requests are of the lower class"),
		},
		{
			"By",
			core.Config{Limits: []core.Limit{anybody.By(keyfuncs.Join(keyfuncs.Everyone(), keyfuncs.Route()))}},
			"POST", 5,
			"limit login: the route in its key is not known" + fmt.Sprintf(remedy, "requests share a bucket"),
		},
		{"a limit beside it", core.Config{Limits: []core.Limit{everyone(200), five.When(login)}}, "POST", 5, applies},
	} {
		for _, silent := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", silenced ", silent), func(t *testing.T) {
				t.Parallel()
				var log strings.Builder
				config := tt.config
				config.Store, config.Logger = core.NewMemory(), slog.New(slog.NewTextHandler(&log, nil))
				want := 0
				if silent {
					config.Silence = []core.Advice{core.AdviceRoute}
				} else if tt.advice != "" {
					want = 1
				}
				l := newLimiter(t, config)
				allowed := 0
				for range 100 {
					if l.Allow(nowhere(tt.method)).Allowed {
						allowed++
					}
				}
				check.Equal(t, "requests allowed of 100", allowed, tt.allowed)
				if strings.Count(log.String(), "WL008") != want || strings.Count(log.String(), tt.advice) < want {
					t.Errorf("logged:\n%s\nwant %d with %s", log.String(), want, tt.advice)
				}
			})
		}
	}
}

// An adapter says what to do, and nothing while it can't tell.
func TestAdviceOnRoutesIsTheAdapters(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	limits := []core.Limit{
		core.PerHour(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes("/a")).Named("a"),
		core.PerHour(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes("/b")).Named("b"),
	}
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Limits: limits, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	l.Allow(&placed{request{route: "?"}, ""})
	if log.Len() > 0 {
		t.Errorf("logged while the adapter can't tell: %s", log.String())
	}
	for range 3 {
		l.Allow(&placed{request{route: "?"}, "sit down"})
	}
	for _, want := range []string{"limit a: ", "limit b: "} {
		if strings.Count(log.String(), want) != 1 || strings.Count(log.String(), "; sit down") != 2 {
			t.Errorf("logged %s, want one line with %q", log.String(), want)
		}
	}
}

// Where the route is not known, the conditions of a bypass are asked once for each request,
// as everywhere else: a second time is for the log, which says it once.
func TestBypassesOfRoutesThatAreNotKnownAreAskedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		silence []core.Advice
		asked   int // for three requests
	}{
		{"logged by the first request", nil, 4},
		{"silenced", []core.Advice{core.AdviceRoute}, 3},
	} {
		asked := 0
		l := newLimiter(t, core.Config{
			Store:  core.NewMemory(),
			Limits: []core.Limit{core.PerHour(5).By(keyfuncs.Everyone())},
			Bypass: []keyfuncs.Condition{keyfuncs.Any(
				keyfuncs.Matches(func(keyfuncs.Request) bool { asked++; return false }),
				keyfuncs.Routes("POST /login"),
			)},
			Logger:  slog.New(slog.DiscardHandler),
			Silence: tt.silence,
		})
		for range 3 {
			check.Equal(t, tt.name+": the reason, that of a request that is not exempt", l.Allow(nowhere("POST")).Reason, core.ReasonWithinLimit)
		}
		check.Equal(t, tt.name+": the condition was asked", asked, tt.asked)
	}
}
