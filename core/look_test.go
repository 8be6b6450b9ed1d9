package core_test

import (
	"context"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestAdviceOnProxiesThatAreNotListed(t *testing.T) {
	xff := map[string]string{"X-Forwarded-For": "198.51.100.7"}
	for _, tt := range []struct {
		name     string
		strategy keyfuncs.Strategy
		r        *request
		want     string // "" for none
	}{
		{"a loopback peer", keyfuncs.TrustedProxies("10.0.0.0/8"), &request{peer: "127.0.0.1", headers: xff}, unlistedProblem},
		{"another header than the strategy's", keyfuncs.XRealIP("10.0.0.0/8"), &request{peer: "127.0.0.1", headers: xff}, unlistedProblem},
		{"a header of a CDN", keyfuncs.SingleHeader("Fastly-Client-IP", "10.0.0.0/8"), &request{peer: "127.0.0.1", headers: map[string]string{"Fastly-Client-Ip": "198.51.100.7"}}, strings.Replace(unlistedProblem, "X-Forwarded-For", "Fastly-Client-Ip", 1)},
		{"a unix socket", keyfuncs.TrustedProxies("10.0.0.0/8"), &request{headers: xff}, socketProblem},
		{"a proxy behind the listed one", keyfuncs.TrustedProxies("10.0.0.0/8"), &request{peer: "10.0.0.1", headers: map[string]string{"X-Forwarded-For": "198.51.100.7, 127.0.0.1"}}, unlistedProblem},
		{"a public peer", keyfuncs.TrustedProxies("10.0.0.0/8"), &request{peer: "192.0.2.1", headers: xff}, ""},
		{"no header", keyfuncs.TrustedProxies("10.0.0.0/8"), &request{peer: "127.0.0.1"}, ""},
		{"another header", keyfuncs.TrustedProxies("10.0.0.0/8"), &request{peer: "127.0.0.1", headers: map[string]string{"X-Forwarded-Proto": "https"}}, ""},
		{"a limit that does not apply", keyfuncs.TrustedProxies("10.0.0.0/8"), &request{peer: "127.0.0.1", headers: xff, method: "PUT"}, ""},
		{"an exempt request", keyfuncs.TrustedProxies("10.0.0.0/8"), &request{peer: "127.0.0.1", headers: xff, method: "OPTIONS"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			advice := newAdvice()
			newLimiter(t, core.Config{
				Store: core.NewMemory(), Logger: advice.logger,
				Limits: []core.Limit{core.PerHour(9).By(keyfuncs.ClientIP(tt.strategy)).Unless(keyfuncs.Methods("PUT"))},
				Bypass: []keyfuncs.Condition{keyfuncs.Methods("OPTIONS")},
			}).Allow(tt.r)
			kind := core.AdviceUnlisted
			if tt.want == "" {
				kind = ""
			}
			advice.want(t, kind, tt.want)
		})
	}
}

// A limit by a key that no request has counts nobody, or all as one.
func TestAdviceOnAKeyThatNoRequestHas(t *testing.T) {
	const n = 10
	byUser := core.PerHour(1 << 40).By(keyfuncs.User("userID"))
	alice := map[any]any{"userID": "alice"}
	every := func(r request) func(int) *request { return func(int) *request { return &r } }
	since := func(first int) func(int) *request { // the key is there from that request on
		return func(i int) *request {
			if i >= first {
				return &request{values: alice}
			}
			return new(request)
		}
	}
	skipped := strings.Replace(keylessProblem, "they share one bucket", "it limits nobody", 1)
	for _, tt := range []struct {
		name     string
		limit    core.Limit
		requests int
		request  func(i int) *request
		want     string // "" for none
	}{
		{"no request has the key", byUser, n, every(request{}), keylessProblem},
		{"the user is a struct", byUser, n, every(request{values: map[any]any{"userID": struct{ id int }{42}}}), keylessProblem},
		{"the limit is skipped", byUser.OnMissingKey(core.SkipLimit), n, every(request{}), skipped},
		{"the limit is in shadow mode", byUser.Shadow(), n, every(request{}), keylessProblem},
		{"too few requests", byUser, n - 1, every(request{}), ""},
		{"the last one has it", byUser, n, since(n - 1), ""},
		{"the first one has it", byUser.OnMissingKey(core.SkipLimit), core.AdviceLooks, func(i int) *request { return &request{values: map[int]map[any]any{0: alice}[i]} }, ""},
		{"they are denied", byUser.OnMissingKey(core.DenyRequest), n, every(request{}), ""},
		{"the limit does not apply", byUser.When(keyfuncs.Methods("POST")), n, every(request{}), ""},
		{"it would be skipped, but does not apply", byUser.OnMissingKey(core.SkipLimit).When(keyfuncs.Methods("POST")), n, every(request{}), ""},
		{"they are exempt", byUser, n, every(request{method: "OPTIONS"}), ""},
		{"there is another key", core.PerHour(9).By(keyfuncs.First(keyfuncs.User("userID"), keyfuncs.Route())), n, every(request{}), ""},
		{"everyone is the key", everyone(9), n, every(request{}), ""},
	} {
		for how, others := range map[string][]core.Limit{"": nil, ", among others": {everyone(1 << 40).Named("a"), core.PerHour(1 << 40).By(keyfuncs.Method()).Named("b")}} {
			t.Run(tt.name+how, func(t *testing.T) {
				advice := newAdvice()
				l := newLimiter(t, core.Config{
					Store: core.NewMemory(), Logger: advice.logger, Limits: append(others, tt.limit),
					Bypass: []keyfuncs.Condition{keyfuncs.Methods("OPTIONS")},
				})
				for i := range tt.requests {
					l.Allow(tt.request(i))
				}
				kind := core.AdviceKeyless
				if tt.want == "" {
					kind = ""
				}
				advice.want(t, kind, tt.want)
			})
		}
	}
}

// Each limit has its own line: that one limit lacks its key says nothing about the next.
func TestAdviceOnKeysOfSeveralLimits(t *testing.T) {
	advice := newAdvice()
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Logger: advice.logger, Limits: []core.Limit{
		core.PerHour(99).By(keyfuncs.User("userID")).Named("a"), core.PerHour(99).By(keyfuncs.Tenant("tenant")).Named("b"),
	}})
	for range 50 {
		l.Allow(new(request))
	}
	for _, name := range []string{"a", "b"} {
		check.Equal(t, "lines about limit "+name, strings.Count(advice.out.String(), "limit "+name+": none of its first 10 requests"), 1)
	}
}

// Batches are requests, too.
func TestAdviceOnAKeyThatNoBatchHas(t *testing.T) {
	for how, others := range map[string][]core.Limit{"alone": nil, "among others": {everyone(1 << 40).Named("a")}} {
		for missing, so := range map[core.MissingKey]string{core.ShareBucket: "they share one bucket", core.SkipLimit: "it limits nobody"} {
			t.Run(how+", "+so, func(t *testing.T) {
				advice := newAdvice()
				l := newLimiter(t, core.Config{Store: core.NewMemory(), Logger: advice.logger, Limits: append(others,
					core.PerHour(1<<40).By(keyfuncs.User("userID")).OnMissingKey(missing))})
				for range 100 {
					l.AllowAtMost(keyfuncs.Values{"user": "42"}, 2)
				}
				advice.want(t, core.AdviceKeyless, strings.Replace(keylessProblem, "they share one bucket", so, 1))
			})
		}
	}
}

// What another limit denies without asking this one says nothing of it.
func TestNoAdviceOnAKeyThatWasNotAskedFor(t *testing.T) {
	advice := newAdvice()
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Logger: advice.logger, Limits: []core.Limit{
		core.PerHour(9).By(keyfuncs.Header("X-Tenant")).OnMissingKey(core.DenyRequest).Named("a"),
		core.PerHour(9).By(keyfuncs.User("userID")).OnMissingKey(core.SkipLimit).Named("b"),
	}})
	for range core.AdviceLooks {
		l.Allow(&request{})
	}
	advice.want(t, "", "")
}

func TestAdviceOnExemptionsByThePeersAddress(t *testing.T) {
	proxies := keyfuncs.TrustedProxies("10.0.0.0/8")
	byPeer := keyfuncs.FromCIDR("10.0.0.0/8")
	byIP := core.PerHour(9).By(keyfuncs.ClientIP(proxies))
	for _, tt := range []struct {
		name   string
		limit  core.Limit
		bypass keyfuncs.Condition
		r      *request
		want   string // "" for none
	}{
		{"in Bypass", byIP, byPeer, forwarded("X-Forwarded-For"), exemptProblem},
		{"in Bypass, with others", byIP, keyfuncs.Any(keyfuncs.Methods("OPTIONS"), byPeer), forwarded("X-Forwarded-For"), exemptProblem},
		{"in Unless", byIP.Unless(byPeer), keyfuncs.Methods("OPTIONS"), forwarded("X-Forwarded-For"), strings.Replace(exemptProblem, "Config.Bypass", "limit default", 1)},
		{"in When", byIP.When(byPeer), keyfuncs.Methods("OPTIONS"), forwarded("X-Forwarded-For"), ""},
		{"with a condition that does not hold", byIP, keyfuncs.All(keyfuncs.Methods("POST"), byPeer), forwarded("X-Forwarded-For"), ""},
		{"of the strategy", byIP, proxies.FromCIDR("198.51.100.0/24"), forwarded("X-Forwarded-For"), ""},
		{"of other networks", byIP, keyfuncs.FromCIDR("127.0.0.0/8"), forwarded("X-Forwarded-For"), ""},
		{"of the proxy's own requests", byIP, byPeer, &request{peer: "10.0.0.1"}, ""},
		{"of a peer that is no proxy", core.PerHour(9).By(keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.9.0.0/16"))), byPeer, &request{peer: "10.0.0.1"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			advice := newAdvice()
			newLimiter(t, core.Config{
				Store: core.NewMemory(), Logger: advice.logger, Limits: []core.Limit{tt.limit}, Silence: []core.Advice{core.AdviceNoClient},
				Bypass: []keyfuncs.Condition{tt.bypass},
			}).Allow(tt.r)
			kind := core.AdviceExempt
			if tt.want == "" {
				kind = ""
			}
			advice.want(t, kind, tt.want)
		})
	}
}

func TestAdviceOnCostsThatNeverFit(t *testing.T) {
	cost := func(n int64) func(keyfuncs.Request) int64 { return func(keyfuncs.Request) int64 { return n } }
	for _, tt := range []struct {
		name  string
		limit core.Limit
		want  string // "" for none
	}{
		{"CostBy", everyone(9).CostBy(cost(10)), neverFitsProblem},
		{"EstimateBy", everyone(9).EstimateBy(cost(10)), neverFitsProblem},
		{"above the burst of a tier", everyone(99).CostBy(cost(10)).Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(9) }), neverFitsProblem},
		{"above the share of the lower class", everyone(18).CostBy(cost(10)).KeepFree(0.5, keyfuncs.Methods("POST")), neverFitsProblem},
		{"the burst", everyone(9).CostBy(cost(9)), ""},
		{"a quota below the burst", core.PerHour(5).Burst(10).By(keyfuncs.Everyone()).CostBy(cost(10)), ""},
		{"more than fits now", everyone(99).CostBy(cost(10)).Scale(func(context.Context) float64 { return 0.05 }), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			advice := newAdvice()
			l := newLimiter(t, core.Config{Store: core.NewMemory(), Logger: advice.logger, Limits: []core.Limit{tt.limit}})
			for range 3 {
				l.Allow(&request{})
			}
			kind := core.AdviceNeverFits
			if tt.want == "" {
				kind = ""
			}
			advice.want(t, kind, tt.want)
		})
	}
}
