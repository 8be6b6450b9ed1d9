package usage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/usage"
)

// noon is a time in the middle of a month.
var noon = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// memoryAt is a store whose clock stands still.
func memoryAt(now time.Time) *core.Memory {
	m := core.NewMemory()
	testclock.Set(m, now.UnixMicro)
	return m
}

func of(user string) keyfuncs.Values { return keyfuncs.Values{"user": user, "method": "GET"} }

func byUser(n int64) core.Limit { return core.PerMinute(n).By(keyfuncs.User("user")) }

// answer returns status and body.
func answer(u *usage.Usage, r keyfuncs.Request) string {
	a := u.Answer(r)
	return fmt.Sprint(a.Status, " ", strings.TrimSpace(string(a.Body)))
}

func TestTheShapeOfAnswers(t *testing.T) {
	t.Parallel()
	l := core.ForLimits(memoryAt(noon), []core.Limit{
		byUser(600).Named("rate"), core.PerMonth(1000, time.UTC).By(keyfuncs.User("user")).Named("plan").Soft(800),
		core.Concurrent(2).By(keyfuncs.User("user")).Named("slots"),
	})
	u := usage.New(usage.Config{Limiters: []*core.Limiter{l}})
	for range 2 {
		l.Allow(of("ann"))
	}
	check.Equal(t, "the answer", answer(u, of("ann")), `200 {"limits":{`+
		`"plan":{"limit":1000,"used":2,"remaining":998,"reset":1796083200,"soft":800,"period":{"start":"2026-11-01T00:00:00Z","end":"2026-12-01T00:00:00Z"}},`+
		`"rate":{"limit":600,"used":2,"remaining":598,"reset":1794398401,"window":60},`+
		`"slots":{"limit":2,"used":2,"remaining":0,"reset":1794398460,"unit":"concurrent-requests","retry_after":1}}}`)
	a := u.Answer(of("ann"))
	check.Equal(t, "headers", fmt.Sprint(a.Header), "map[Cache-Control:[no-store] Content-Type:[application/json]]")
}

// The rule of what is told: the limits that apply, and of these what a header could say.
func TestNothingElseIsTold(t *testing.T) {
	t.Parallel()
	store := memoryAt(noon)
	l := core.Must(core.New(core.Config{Store: store, Bypass: []keyfuncs.Condition{keyfuncs.Methods("TRACE")}, Limits: []core.Limit{
		byUser(5).Named("own"), byUser(6).Named("shadow").Shadow(), byUser(7).Named("hidden").Hidden(),
		byUser(8).Named("posts").When(keyfuncs.Methods("POST")),
	}}))
	other := core.ForLimits(store, []core.Limit{byUser(9).Named("elsewhere").OnMissingKey(core.DenyRequest)})
	u := usage.New(usage.Config{Limiters: []*core.Limiter{l}})
	for range 4 {
		l.Allow(of("bob"))
	}
	const unused = `200 {"limits":{"own":{"limit":5,"used":0,"remaining":5,"reset":1794398400,"window":60}}}`
	for range 9 { // and asking uses nothing
		check.Equal(t, "ann's", answer(u, of("ann")), unused)
	}
	check.Equal(t, "bypassed", answer(u, keyfuncs.Values{"user": "ann", "method": "TRACE"}), `200 {"limits":{},"unlimited":true}`)
	both := usage.New(usage.Config{Limiters: []*core.Limiter{l, other}})
	a := both.Answer(keyfuncs.Values{"method": "GET"})
	check.All(t, "without a key", []any{a.Status, a.Header["Www-Authenticate"], strings.Contains(string(a.Body), "no authenticated user")}, 401, "[Bearer]", true)
}

// downStore does not answer.
type downStore struct{ core.Store }

func (downStore) Peek(context.Context, []core.Check, []core.Result) error { return errors.New("down") }

func TestInAnOutageNothingIsGuessed(t *testing.T) {
	t.Parallel()
	l := core.ForLimits(downStore{core.NewMemory()}, []core.Limit{byUser(5)})
	a := usage.New(usage.Config{Limiters: []*core.Limiter{l}}).Answer(of("ann"))
	check.All(t, "the answer", []any{a.Status, a.Header["Retry-After"], strings.Contains(string(a.Body), "limits")}, 503, "[1]", false)
	var problem struct{ Status int }
	must.OK(t, json.Unmarshal(a.Body, &problem))
	check.Equal(t, "status of the body", problem.Status, 503)
}

// Denials and blocks are told, and looking makes neither.
func TestWhatIsUsedUp(t *testing.T) {
	t.Parallel()
	l := core.ForLimits(memoryAt(noon), []core.Limit{byUser(1).Penalty(core.Block{After: 2, Within: time.Hour, For: time.Hour})})
	u := usage.New(usage.Config{Limiters: []*core.Limiter{l}})
	l.Allow(of("ann"))
	for range 5 {
		check.Equal(t, "used up", answer(u, of("ann")), `200 {"limits":{"default":{"limit":1,"used":1,"remaining":0,"reset":1794398460,"window":60,"retry_after":60}}}`)
	}
	l.Allow(of("ann"))
	l.Allow(of("ann"))
	check.Equal(t, "blocked", answer(u, of("ann")), `200 {"limits":{"default":{"limit":1,"used":1,"remaining":0,"reset":1794402000,"window":60,"blocked":true,"retry_after":3600}}}`)
}

// Of one name the limit that is nearer to its end is told: the limiters in front of two APIs may share it.
func TestALimitOfTwoLimitersIsToldOnce(t *testing.T) {
	t.Parallel()
	store := memoryAt(noon)
	shared := byUser(10).Named("shared")
	all := core.ForLimits(store, []core.Limit{shared})
	less := core.ForLimits(store, []core.Limit{shared.KeepFree(0.5, keyfuncs.Methods("POST"))})
	for _, order := range [][]*core.Limiter{{all, less}, {less, all}} {
		check.Equal(t, "told", answer(usage.New(usage.Config{Limiters: order}), of("ann")), `200 {"limits":{"shared":{"limit":5,"used":0,"remaining":5,"reset":1794398400,"window":30}}}`)
	}
}

func TestConfigsThatTellNothing(t *testing.T) {
	t.Parallel()
	for _, config := range []usage.Config{{}, {Limiters: []*core.Limiter{nil}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v: no panic", config)
				}
			}()
			usage.New(config)
		}()
	}
}

// Of a choice all limits are told, and which are not charged at present.
func TestAChoiceIsToldWhole(t *testing.T) {
	t.Parallel()
	user := keyfuncs.User("user")
	l := core.ForLimits(memoryAt(noon), []core.Limit{core.First(core.PerMonth(1, time.UTC).By(user).Named("plan"), core.Per(5, 1000*time.Hour).FixedWindow().By(user).Named("credits"))})
	u := usage.New(usage.Config{Limiters: []*core.Limiter{l}})
	pays := func() string {
		report, _, err := u.Report(of("ann"))
		must.OK(t, err)
		plan, credits := report.Limits["plan"], report.Limits["credits"]
		return fmt.Sprint(plan.Remaining, plan.PassedOver, credits.Remaining, credits.PassedOver)
	}
	check.Equal(t, "at first", pays(), "1 false 5 true")
	l.Allow(of("ann"))
	check.Equal(t, "the plan is used up", pays(), "0 true 5 false")
	l.Allow(of("ann"))
	check.Equal(t, "a credit is used", pays(), "0 true 4 false")
}
