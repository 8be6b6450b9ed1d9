package limittest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// with returns settings for several layers.
func (e *env) with(config core.Config) *Settings {
	e.Helper()
	if config.Store == nil {
		config.Store = e.newStore(e)
	}
	if config.Timeout == 0 {
		config.Timeout = patience
	}
	config.Silence = []core.Advice{"WL001"}
	return &Settings{Config: config}
}

// three builds an app whose route is behind a global limiter, one of a group, and one of
// its own. Further handlers of the route go first.
func (e *env) three(s *Settings, global, group, route core.Limit) *site {
	e.Helper()
	layer := func(l core.Limit) Layer { return Layer{With: s, Limits: []core.Limit{l}} }
	return e.serve(App{Layers: []Layer{layer(global)}, Routes: []Route{
		{Method: "GET", Path: "/", Layers: []Layer{layer(group), layer(route)}, Handle: hello},
	}})
}

// all is a limit of n units an hour for everyone.
func all(name string, n int64) core.Limit {
	return core.PerHour(n).By(keyfuncs.Everyone()).Named(name)
}

// oneLimit are the dialects that have room for one limit.
var oneLimit = []core.Headers{core.Draft07, core.Draft03, core.XRateLimit, core.XRateLimitDelta, core.Draft03 | core.XRateLimit, core.Draft07 | core.XRateLimitDelta}

// binds checks that a response tells of a limit of so many units an hour, and of no other, in
// dialects with room for one.
func (e *env) binds(what string, r response, dialects core.Headers, limit, left int) {
	e.Helper()
	what = fmt.Sprintf("dialects %b, %s: ", dialects, what)
	if dialects&core.Draft07 != 0 {
		equal(e, what+"RateLimit-Policy", e.only(r, "Ratelimit-Policy"), fmt.Sprintf("%d;w=3600", limit))
		told, _, _ := strings.Cut(e.only(r, "Ratelimit"), ", reset=")
		equal(e, what+"RateLimit", told, fmt.Sprintf("limit=%d, remaining=%d", limit, left))
	}
	if dialects&core.Draft03 != 0 {
		equal(e, what+"RateLimit-Limit", e.only(r, "Ratelimit-Limit"), fmt.Sprintf("%d;w=3600", limit))
		equal(e, what+"RateLimit-Remaining", e.only(r, "Ratelimit-Remaining"), strconv.Itoa(left))
	}
	if dialects&(core.XRateLimit|core.XRateLimitDelta) != 0 {
		equal(e, what+"X-RateLimit-Limit", e.only(r, "X-Ratelimit-Limit"), strconv.Itoa(limit))
		equal(e, what+"X-RateLimit-Remaining", e.only(r, "X-Ratelimit-Remaining"), strconv.Itoa(left))
	}
}

// untoldSingle checks that a response has no field of a dialect with room for one limit.
func (e *env) untoldSingle(what string, r response) {
	e.Helper()
	for _, name := range []string{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Warning"} {
		equal(e, what+": "+name, e.only(r, name), "")
	}
}

var settings = []scenario{
	{"of global, group and route limits the one that binds is told", func(e *env) {
		const roomy = 50
		for _, dialects := range oneLimit {
			for tight, name := range []string{"global", "group", "route"} {
				numbers := [3]int64{roomy, roomy + 10, roomy + 20}
				numbers[tight] = 2
				s := e.three(e.with(core.Config{Headers: dialects}), all("global", numbers[0]), all("group", numbers[1]), all("route", numbers[2]))
				e.binds(name+" with 1 left", s.get("/"), dialects, 2, 1)
				e.binds(name+" with 0 left", s.get("/"), dialects, 2, 0)
				r := s.get("/")
				e.denied(name, r)
				e.binds(name+" denies", r, dialects, 2, 0)
				equal(e, "body", r.body, problem(e.wait(r, 1800), strconv.Quote(name)))
			}
		}
	}},
	{"a denial tells of the limit that denies, though others have less left", func(e *env) {
		for _, dialects := range oneLimit {
			s := e.three(e.with(core.Config{Headers: dialects}), all("global", 3), all("group", 30), all("route", 12).Cost(10))
			e.binds("of equal ones the first", s.get("/"), dialects, 3, 2)
			for left := range 2 {
				r := s.get("/") // global is charged: it has fewer units left than route needs
				e.denied("route", r)
				e.binds(fmt.Sprintf("route denies, %d", left), r, dialects, 12, 2)
				equal(e, "body", r.body, problem(e.wait(r, 8*300), `"route"`))
			}
			r := s.get("/")
			e.denied("global", r)
			e.binds("global denies", r, dialects, 3, 0)
		}
	}},
	{"draft 11 lists global, group and route limits in their order, on allowed and denied responses", func(e *env) {
		s := e.three(e.with(core.Config{Headers: core.Draft11 | core.XRateLimitDelta}), all("global", 50), all("group", 60), all("route", 2))
		for i := range 3 {
			r := s.get("/")
			equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"global";q=50;w=3600, "group";q=60;w=3600, "route";q=2;w=3600`)
			e.remaining("global", r, "global", 49-i)
			e.remaining("group", r, "group", 59-i)
			e.remaining("route", r, "route", max(1-i, 0))
			e.binds(fmt.Sprint("request ", i), r, core.XRateLimitDelta, 2, max(1-i, 0))
		}
	}},
	{"a denial that no store was asked for tells of no other limit", func(e *env) {
		byTenant := core.PerHour(5).By(keyfuncs.Header("X-Tenant")).OnMissingKey(core.DenyRequest).Named("tenant")
		for _, dialects := range oneLimit {
			for what, options := range map[string][]option{"missing": nil, "ambiguous": {with("X-Tenant", "a"), with("X-Tenant", "b")}} {
				s := e.three(e.with(core.Config{Headers: dialects}), all("global", 99).WarnAt(0.01), all("group", 99), byTenant)
				r := s.get("/", options...)
				equal(e, "allowed", r.status < 400, false)
				e.untoldSingle(what, r)
				equal(e, "RateLimit", e.only(r, "Ratelimit"), "")
				e.binds("with a key", s.get("/", with("X-Tenant", "a")), dialects, 5, 4)
			}
		}
	}},
	{"a denial replaces what a limiter with other dialects has told", func(e *env) {
		for _, tt := range []struct{ outer, inner core.Headers }{
			{core.Draft11 | core.XRateLimit, core.Draft11}, {core.Draft03, core.Draft11}, {core.Draft07, core.Draft11}, {core.Draft03, core.XRateLimit},
		} {
			layer := func(h core.Headers, l core.Limit) []Layer {
				return e.configured(core.Config{Headers: h, Limits: []core.Limit{l}})
			}
			s := e.serve(App{Layers: layer(tt.outer, all("outer", 99)), Routes: []Route{
				{Method: "GET", Path: "/", Layers: layer(tt.inner, all("inner", 1)), Handle: hello},
			}})
			e.passes("first", s.get("/"))
			r := s.get("/")
			e.denied("second", r)
			if told := e.told(r); strings.Contains(told, "limit=99") || strings.Contains(told, "Limit: 99") {
				e.Errorf("dialects %b around %b: the denial tells of the limit outside:\n%s", tt.outer, tt.inner, told)
			}
			if tt.inner&core.Draft11 != 0 {
				e.remaining("inner", r, "inner", 0)
			}
		}
	}},
	{"HeadersWhen holds for global, group and route limits", func(e *env) {
		for when, want := range map[core.HeadersWhen][2]bool{core.Always: {true, true}, core.NearLimit: {false, true}, core.OnDenial: {false, true}, core.Never: {}} {
			s := e.three(e.with(core.Config{Headers: core.XRateLimit, HeadersWhen: when}), all("global", 50), all("group", 60), all("route", 10).Cost(7))
			for i := range 2 {
				r := s.get("/")
				equal(e, fmt.Sprintf("HeadersWhen %d, request %d", when, i), e.only(r, "X-Ratelimit-Remaining") != "", want[i])
				if want[i] {
					e.binds("route", r, core.XRateLimit, 10, 3)
				}
			}
		}
	}},
	{"a bypass token and a bypassed route pass global, group and route limits", func(e *env) {
		store := e.counting()
		settings := e.with(core.Config{Store: store, Headers: core.Draft11 | core.XRateLimit, Bypass: []keyfuncs.Condition{
			keyfuncs.Tokens("X-Bypass-Token", token), keyfuncs.FromCIDR("198.51.100.0/24"), keyfuncs.Methods("HEAD"),
		}})
		layer := func(l core.Limit) []Layer { return []Layer{{With: settings, Limits: []core.Limit{l}}} }
		around := append(layer(all("group", 1)), layer(all("route", 1))...)
		s := e.serve(App{Layers: layer(all("global", 1)), Routes: []Route{
			{Method: "GET", Path: "/", Layers: around, Handle: reasons[0].Handle},
			{Method: "HEAD", Path: "/", Layers: around, Handle: hello},
		}})
		for range 3 {
			for what, options := range map[string][]option{"the token": {with("X-Bypass-Token", token)}, "the network": {from("198.51.100.7:1")}} {
				r := s.get("/", options...)
				equal(e, what+": status", r.status, http.StatusOK)
				equal(e, what+": decision", r.body, "bypassed, false")
				e.silent(what, r)
			}
			e.silent("the method", s.do("HEAD", "/"))
		}
		equal(e, "bypassed requests that reached the store", store.asked(), 0)
		e.passes("without", s.get("/", with("X-Bypass-Token", token+"x")))
		equal(e, "round trips of three limiters", store.asked(), 3)
		e.denied("without", s.get("/"))
	}},
	{"one Denied and one Skip serve global, group and route limits", func(e *env) {
		for tight, name := range []string{"global", "group", "route"} {
			numbers := [3]int64{9, 9, 9}
			numbers[tight] = 1
			settings := e.with(core.Config{Headers: core.XRateLimit})
			settings.Layer = Layer{
				Skip: func(header func(string) string) bool { return header("X-Skip") == "yes" },
				Denied: func(d core.Decision) (int, string) {
					b, _ := d.Binding()
					return http.StatusTeapot, b.Rule.Name
				},
			}
			s := e.three(settings, all("global", numbers[0]), all("group", numbers[1]), all("route", numbers[2]))
			e.passes("first", s.get("/"))
			for range 2 {
				r := s.get("/")
				equal(e, "status", r.status, http.StatusTeapot)
				equal(e, "body", r.body, name)
				e.binds(name, r, core.XRateLimit, 1, 0)
				e.wait(r, 3600)
				r = s.get("/", with("X-Skip", "yes"))
				equal(e, "skipped", r.body, "hello")
				e.silent("skipped", r)
			}
		}
	}},
	{"a Denied that logs can answer as usual", func(e *env) {
		var logged []string
		logs := Layer{Log: func(d core.Decision) { logged = append(logged, d.Reason.String()) }}
		german := map[string]func(core.Decision) string{"de": func(core.Decision) string { return "Zu viel." }}
		usual := e.three(e.with(core.Config{Details: german}), all("global", 9), all("group", 9), all("route", 1))
		settings := e.with(core.Config{Details: german})
		settings.Layer = logs
		own := e.three(settings, all("global", 9), all("group", 9), all("route", 1))
		usual.get("/")
		own.get("/")
		for _, options := range [][]option{{with("Accept-Language", "de")}, {with("Accept-Language", "en")}} {
			want, got := usual.get("/", options...), own.get("/", options...)
			e.denied("own", got)
			equal(e, "body", got.body, want.body)
			for _, name := range []string{"Content-Type", "Content-Language", "Content-Length", "Cache-Control", "Vary", "Retry-After", "Ratelimit-Policy"} {
				equal(e, name, e.only(got, name), e.only(want, name))
			}
		}
		equal(e, "denials logged", len(logged), 2)
	}},
	{"of several limiters the warning with the most use is told, over a soft limit first, and none on a denial", func(e *env) {
		const group, soft = `approaching limit; policy="group"; used=50%`, `over soft limit; policy="global"; used=20%`
		s := e.three(e.with(core.Config{}), all("global", 10).Soft(1).WarnAt(0.1), all("group", 4).WarnAt(0.5), all("route", 9).Cost(4).WarnAt(0.4))
		equal(e, "first", e.only(s.get("/"), "X-Ratelimit-Warning"), `approaching limit; policy="route"; used=44%`)
		equal(e, "second", e.only(s.get("/"), "X-Ratelimit-Warning"), soft)
		r := s.get("/")
		e.denied("third", r)
		e.untoldSingle("third", r)
		s = e.three(e.with(core.Config{}), all("global", 10).WarnAt(0.1), all("group", 4).WarnAt(0.5), all("route", 99))
		s.get("/")
		equal(e, "group", e.only(s.get("/"), "X-Ratelimit-Warning"), group)
	}},
	{"a limiter of the settings counts together with the middleware of equal limits", func(e *env) {
		settings := e.with(core.Config{})
		limit := core.PerHour(3).By(keyfuncs.Custom("tenant", header("X-Tenant"))).Named("tenant")
		s := e.serve(App{Layers: []Layer{{With: settings, Limits: []core.Limit{limit}}}})
		worker := settings.made.(interface {
			Limiter(limits ...core.Limit) *core.Limiter
		}).Limiter(limit)
		acme := with("X-Tenant", "acme")
		e.passes("a request", s.get("/", acme))
		for _, want := range []bool{true, false} { // 2 are left, then none
			d := worker.AllowKey(e.Context(), keyfuncs.Encode("tenant", "acme"), 2)
			equal(e, "the worker is allowed", d.Allowed, want)
		}
		r := s.get("/", acme)
		e.denied("a request after the worker's", r)
		e.remaining("after the worker's", r, "tenant", 0)
		e.passes("of another tenant", s.get("/", with("X-Tenant", "other")))
	}},
	{"an event of OnWarning is told once, whichever limiter of a limit is reached", func(e *env) {
		var events atomic.Int64
		settings := e.with(core.Config{OnWarning: func(context.Context, core.Warning) { events.Add(1) }})
		limit := core.PerHour(10).By(keyfuncs.Everyone()).Named("units").WarnAt(0.5).CostBy(func(r keyfuncs.Request) int64 {
			n, _ := strconv.ParseInt(header("X-Cost")(r), 10, 64)
			return n
		}).RefundOn(func(o core.Outcome) bool { return o.Status == http.StatusNotFound })
		layers := func() []Layer { return []Layer{{With: settings, Limits: []core.Limit{limit}}} }
		gone := func(c Call) { c.Reply(http.StatusNotFound, "gone") }
		s := e.serve(App{Routes: []Route{
			{Method: "GET", Path: "/a", Layers: layers(), Handle: gone}, {Method: "GET", Path: "/b", Layers: layers(), Handle: hello},
		}})
		equal(e, "status", s.get("/a", with("X-Cost", "6")).status, http.StatusNotFound) // reaches the level, and is refunded
		if err := settings.made.(interface{ Drain(context.Context) error }).Drain(e.Context()); err != nil {
			e.Error(err)
		}
		equal(e, "status", s.get("/b", with("X-Cost", "6")).status, http.StatusOK) // reaches it again
		equal(e, "events", events.Load(), 1)
	}},
	{"Replicas hold for global, group and route limits in an outage", func(e *env) {
		for tight, name := range []string{"global", "group", "route"} {
			numbers := [3]int64{900, 900, 900}
			numbers[tight] = 6
			s := e.three(e.with(core.Config{Store: e.failing(), Replicas: 3}), all("global", numbers[0]), all("group", numbers[1]), all("route", numbers[2]))
			for range 2 {
				e.passes(name, s.get("/"))
			}
			e.denied(name, s.get("/"))
		}
	}},
	{"the limits of one name in one application are equal, and the settings have none", func(e *env) {
		settings := e.with(core.Config{})
		panics := func(what, message string, layers ...Layer) {
			e.Helper()
			defer func() {
				e.Helper()
				contains(e, what, fmt.Sprint(recover()), message)
			}()
			e.serve(App{Layers: layers})
		}
		limit := func(l core.Limit) Layer { return Layer{With: settings, Limits: []core.Limit{l}} }
		e.serve(App{Layers: []Layer{limit(all("api", 5)), limit(all("api", 5))}})
		panics("other numbers", `limit "api"`, limit(all("api", 6)))
		panics("another key", `limit "api"`, limit(core.PerHour(5).By(keyfuncs.ClientIP()).Named("api")))
		panics("no limit", "Config.Limits is empty", Layer{With: settings})
		panics("no key", "By", limit(core.PerHour(5).Named("other")))
		panics("limits in the settings", "Config.Limits must be empty", Layer{With: e.with(core.Config{Limits: []core.Limit{all("api", 5)}}), Limits: []core.Limit{all("api", 5)}})
		panics("a wrong setting", "Config.Replicas", Layer{With: e.with(core.Config{Replicas: -1}), Limits: []core.Limit{all("x", 5)}})
	}},
}
