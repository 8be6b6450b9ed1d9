package core_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

const bypassToken = "4f1c0a9be2d73586b0c4" // of 20 bytes

func TestBypassTouchesNoStore(t *testing.T) {
	t.Parallel()
	with := func(name, value string) *request { return &request{headers: map[string]string{name: value}} }
	for _, tt := range []struct {
		name   string
		r      *request
		bypass bool
	}{
		{"a route", &request{route: "/healthz"}, true},
		{"a route by another method", &request{route: "/healthz", method: "POST"}, false},
		{"a route that begins alike", &request{route: "/healthz/../login"}, false},
		{"a token", with("X-Bypass-Token", bypassToken), true},
		{"a token of another header", with("X-Token", bypassToken), false},
		{"a token and more", with("X-Bypass-Token", bypassToken+"0"), false},
		{"less than a token", with("X-Bypass-Token", bypassToken[1:]), false},
		{"no token", with("X-Bypass-Token", ""), false},
		{"a network", &request{peer: "192.0.2.7"}, true},
		{"a neighbouring network", &request{peer: "192.0.3.7"}, false},
		{"a network by a header", with("X-Forwarded-For", "192.0.2.7"), false},
		{"a condition of one's own", &request{values: map[any]any{"staff": true}}, true},
		{"none of them", &request{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, down := range []bool{false, true} { // trap 27: an outage does not take /healthz down
				store := newFlaky(down)
				l := newLimiter(t, core.Config{
					Store: store, Headers: everyDialect, Silence: []core.Advice{core.AdviceForwarded},
					Limits: []core.Limit{everyone(1).OnOutage(core.Deny)},
					Bypass: []keyfuncs.Condition{
						keyfuncs.Routes("GET /healthz"),
						keyfuncs.Tokens("X-Bypass-Token", bypassToken),
						keyfuncs.FromCIDR("192.0.2.0/24"),
						keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value("staff") == true }),
					},
				})
				if !tt.bypass {
					d := l.Allow(tt.r)
					check.All(t, "bypassed, and calls of the store", []any{d.Reason == core.ReasonBypassed, store.calls.Load()}, false, 1)
					continue
				}
				for range 3 {
					d := l.Allow(tt.r)
					wantDecision(t, "bypassed", d, true, core.ReasonBypassed)
					wantNothingTold(t, "bypassed", d)
					check.Equal(t, "Err", d.Err, nil)
				}
				check.Equal(t, "calls of the store", store.calls.Load(), 0)
			}
		})
	}
}

// Trap 40: guessing tokens is limited like any request, and no token ends in a
// store or a log.
func TestWrongBypassTokensCount(t *testing.T) {
	t.Parallel()
	store := newFlaky(false)
	l := newLimiter(t, core.Config{
		Store:  store,
		Limits: []core.Limit{core.PerHour(3).By(keyfuncs.ClientIP())},
		Bypass: []keyfuncs.Condition{keyfuncs.Tokens("X-Bypass-Token", bypassToken)},
	})
	guess := func(token string) core.Decision {
		return l.Allow(&request{peer: "198.51.100.7", headers: map[string]string{"X-Bypass-Token": token}})
	}
	passed := 0
	for i := range 20 {
		d := guess(fmt.Sprintf("%s%02d", bypassToken[:18], 10+i))
		if d.Allowed {
			passed++
		}
		if strings.Contains(logged(t, d), bypassToken[:18]) {
			t.Error("the log holds a token")
		}
	}
	check.Equal(t, "guesses that passed", passed, 3)
	wantDecision(t, "the right token", guess(bypassToken), true, core.ReasonBypassed)
	for _, key := range store.keys {
		if strings.Contains(string(key), bypassToken[:10]) {
			t.Errorf("the store was given the key %q", key)
		}
	}
}

func TestPreflightsCountByDefault(t *testing.T) {
	t.Parallel()
	preflight := map[string]string{"Origin": "https://app.example", "Access-Control-Request-Method": "PUT"}
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(1)}})
	r := &request{method: "OPTIONS", headers: preflight}
	wantDecision(t, "the first", l.Allow(r), true, core.ReasonWithinLimit, 0)
	wantDecision(t, "the second", l.Allow(r), false, core.ReasonLimitExceeded, 0)
}

// Keys, conditions, costs and tiers of limits are not read for a bypassed request.
func TestBypassComesBeforeTheLimits(t *testing.T) {
	t.Parallel()
	read := 0
	note := func(keyfuncs.Request) bool { read++; return true }
	l := newLimiter(t, core.Config{
		Store: core.NewMemory(),
		Limits: []core.Limit{core.PerHour(1).
			By(keyfuncs.Custom("note", func(keyfuncs.Request) string { read++; return "x" })).
			When(keyfuncs.Matches(note)).
			CostBy(func(r keyfuncs.Request) int64 { note(r); return 1 }).
			Tiers(func(r keyfuncs.Request) core.Limit { note(r); return core.Limit{} })},
		Bypass: []keyfuncs.Condition{keyfuncs.Methods("PUT")},
	})
	l.Allow(&request{method: "PUT"})
	check.Equal(t, "functions of a limit that ran", read, 0)
	l.Allow(&request{})
	check.Equal(t, "functions of a limit that ran for a request that is limited", read, 4)
}

func TestNewKeepsNoBypassOfTheCaller(t *testing.T) {
	t.Parallel()
	config := core.Config{
		Store: core.NewMemory(), Limits: []core.Limit{everyone(5)},
		Bypass: []keyfuncs.Condition{keyfuncs.Methods("PUT")},
	}
	l := newLimiter(t, config)
	config.Bypass[0] = keyfuncs.Methods("GET")
	wantDecision(t, "a request that was never exempt", l.Allow(&request{}), true, core.ReasonWithinLimit, 4)
	wantDecision(t, "a request that was exempt", l.Allow(&request{method: "PUT"}), true, core.ReasonBypassed)
}

func TestNewSaysWhatIsWrongWithSettings(t *testing.T) {
	t.Parallel()
	text := func(core.Decision) string { return "" }
	for _, tt := range []struct {
		name   string
		change func(*core.Config)
		want   string
	}{
		{"a zero condition", func(c *core.Config) { c.Bypass = make([]keyfuncs.Condition, 1) }, "weblimit: Config.Bypass: keyfuncs: the zero Condition is invalid, use a constructor such as keyfuncs.Routes"},
		{"a bad condition behind a good one", func(c *core.Config) {
			c.Bypass = []keyfuncs.Condition{keyfuncs.Methods("GET"), keyfuncs.Routes()}
		}, "weblimit: Config.Bypass: keyfuncs.Routes: no routes"},
		{"a short token", func(c *core.Config) {
			c.Bypass = []keyfuncs.Condition{keyfuncs.Tokens("X-T", bypassToken, "s3cret")}
		}, "weblimit: Config.Bypass: keyfuncs.Tokens: token 2 of 2 has 6 bytes, want 16 or more"},
		{"a bad condition of a limit", func(c *core.Config) {
			c.Limits = []core.Limit{everyone(1).Named("x").When(keyfuncs.Routes())}
		}, `weblimit: limit "x": keyfuncs.Routes: no routes`},
		{"a bad condition behind a good one of a limit", func(c *core.Config) {
			c.Limits = []core.Limit{everyone(1).Named("x").When(keyfuncs.Methods("GET")).When(keyfuncs.Condition{})}
		}, `weblimit: limit "x": keyfuncs: the zero Condition is invalid, use a constructor such as keyfuncs.Routes`},
		{"a bad exemption of a limit", func(c *core.Config) {
			c.Limits = []core.Limit{everyone(1).Named("x").Unless(keyfuncs.Methods("get"))}
		}, `weblimit: limit "x": keyfuncs.Methods: "get" is not a method`},
		{"a policy for missing keys that is none", func(c *core.Config) {
			c.Limits = []core.Limit{everyone(1).OnMissingKey(3)}
		}, `weblimit: limit "default": unknown policy for missing keys 3`},
		{"a nil pointer for a store", func(c *core.Config) { c.Store = (*core.Memory)(nil) }, "weblimit: Config.Store is a nil *memstore.Store"},
		{"a nil pointer for a second store", func(c *core.Config) { c.Fallback.Store = (*core.Memory)(nil) }, "weblimit: Config.Fallback: the store is a nil *memstore.Store"},
		{"an exemption of everybody", func(c *core.Config) { c.Bypass = []keyfuncs.Condition{keyfuncs.FromCIDR("0.0.0.0/0")} }, "weblimit: Config.Bypass: keyfuncs.FromCIDR: these networks contain every address, so everybody would be exempt; name the networks, or use Matches if that is meant"},
		{"an address that clients write as a key", func(c *core.Config) { c.Limits = []core.Limit{core.PerHour(1).By(keyfuncs.Header("X-Real-IP"))} }, `weblimit: limit "default": keyfuncs.Header: X-Real-IP carries an address, which clients can make up; use keyfuncs.ClientIP(keyfuncs.XRealIP(proxies...)), or keyfuncs.Custom if the text itself is meant`},
		{"an answer to missing keys that is no denial", func(c *core.Config) { c.MissingKey.Status = 200 }, "weblimit: Config.MissingKey: the status must be from 400 to 499, got 200"},
		{"an answer to missing keys of the server's", func(c *core.Config) { c.MissingKey.Status = 503 }, "weblimit: Config.MissingKey: the status must be from 400 to 499, got 503"},
		{"a 401 without a challenge", func(c *core.Config) { c.MissingKey.Status = 401 }, "weblimit: Config.MissingKey: a 401 needs a Challenge, such as Bearer, or leave out Status"},
		{"a challenge without a 401", func(c *core.Config) { c.MissingKey = core.MissingKeyAnswer{Status: 403, Challenge: "Bearer"} }, "weblimit: Config.MissingKey: a Challenge belongs to status 401, not to 403"},
		{"a challenge with a line break", func(c *core.Config) { c.MissingKey.Challenge = "Bearer\r\nX-Y: z" }, `weblimit: Config.MissingKey: "Bearer\r\nX-Y: z" is not a challenge, want one such as Basic realm="api"`},
		{"a challenge without a scheme", func(c *core.Config) { c.MissingKey.Challenge = `="api"` }, `weblimit: Config.MissingKey: "=\"api\"" is not a challenge, want one such as Basic realm="api"`},
		{"dialects of the same names", func(c *core.Config) { c.Headers = core.Draft11 | core.Draft07 }, "weblimit: Config.Headers can't have both Draft11 and Draft07: their fields have the same names"},
		{"dialects of the same names among others", func(c *core.Config) { c.Headers = core.Draft03 | core.XRateLimit | core.XRateLimitDelta }, "weblimit: Config.Headers can't have both XRateLimit and XRateLimitDelta: their fields have the same names"},
		{"a dialect that is none", func(c *core.Config) { c.Headers = core.Draft11 | 1<<7 }, "weblimit: Config.Headers has an unknown dialect"},
		{"a HeadersWhen that is none", func(c *core.Config) { c.HeadersWhen = core.Never + 1 }, "weblimit: Config.HeadersWhen is unknown"},
		{"an empty language", func(c *core.Config) { c.Details = map[string]func(core.Decision) string{"": text} }, `weblimit: Config.Details: "" is not a language tag`},
		{"a language with an underscore", func(c *core.Config) { c.Details = map[string]func(core.Decision) string{"de_CH": text} }, `weblimit: Config.Details: "de_CH" is not a language tag`},
		{"a language with a line break", func(c *core.Config) { c.Details = map[string]func(core.Decision) string{"de\r\nX-Y: z": text} }, `weblimit: Config.Details: "de\r\nX-Y: z" is not a language tag`},
		{"a language of dashes", func(c *core.Config) { c.Details = map[string]func(core.Decision) string{"-": text} }, `weblimit: Config.Details: "-" is not a language tag`},
		{"a language that ends in a dash", func(c *core.Config) { c.Details = map[string]func(core.Decision) string{"de-": text} }, `weblimit: Config.Details: "de-" is not a language tag`},
		{"a language of too long a part", func(c *core.Config) { c.Details = map[string]func(core.Decision) string{"portuguese": text} }, `weblimit: Config.Details: "portuguese" is not a language tag`},
		{"any language", func(c *core.Config) { c.Details = map[string]func(core.Decision) string{"*": text} }, `weblimit: Config.Details: "*" is not a language tag`},
		{"a language without a text", func(c *core.Config) { c.Details = map[string]func(core.Decision) string{"de": nil} }, `weblimit: Config.Details: the function for "de" is nil`},
		{"a language twice", func(c *core.Config) {
			c.Details = map[string]func(core.Decision) string{"pt-BR": text, "pt-br": text}
		}, `weblimit: Config.Details: "pt-br" is there twice, in other case`},
		{"two settings at once", func(c *core.Config) { c.Headers, c.HeadersWhen = 1<<7, 99 }, "weblimit: Config.Headers has an unknown dialect\nweblimit: Config.HeadersWhen is unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			config := core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(1)}}
			tt.change(&config)
			l, err := core.New(config)
			check.All(t, "New", []any{l, err}, nil, tt.want)
		})
	}
}
