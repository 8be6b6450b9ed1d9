package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/regions"
)

// fieldCase shows that fields matter: two files that differ in them decide the same requests
// differently.
type fieldCase struct {
	fields string // of the schema, with blanks between
	file   string // "«a|b»" is a in the first file and b in the second
	ask    string // requests, with ";" between; see request
	store  func() core.Store
	run    func(t *testing.T, l *core.Limiter, log *strings.Builder) string // instead of ask
}

// one is a file with one policy of one limit.
func one(limit string) string { return "policies: {p: {limits: {a: {" + limit + "}}}}" }

// with is a file with a policy of one limit of an address, and a setting.
func with(setting string) string {
	return "policies: {p: {" + setting + ", limits: {a: {limit: 1/hour, by: ip}}}}"
}

// group is a file with a limit of one request for some requests.
func group(condition string) string {
	return "policies: {p: {limits: {a: {limit: 1/hour, by: everyone, when: {" + condition + "}}}}}"
}

const twice = "ip=192.0.2.1; ip=192.0.2.1"

var fieldCases = []fieldCase{
	{fields: "file.version", file: "{«version: v1|version: v2», policies: {p: {limits: {a: {limit: 1/hour, by: ip}}}}}", ask: twice},
	{fields: "file.policies policy.limits", file: "policies: {p: {limits: {«a|b»: {limit: 1/hour, by: ip}}}}", ask: twice},
	{fields: "file.defaults", file: "{«|defaults: {headers: [x_quota]}, »policies: {p: {limits: {a: {limit: 1/hour, by: ip}}}}}", ask: twice},

	{fields: "policy.client_ip client_ip.trusted_proxies", file: with("client_ip: {«|trusted_proxies: [10.0.0.0/8]»}"), ask: "ip=10.0.0.1 X-Forwarded-For=192.0.2.1; ip=10.0.0.1 X-Forwarded-For=192.0.2.2"},
	{fields: "client_ip.forwarded", file: with("client_ip: {«|forwarded: [10.0.0.0/8]»}"), ask: "ip=10.0.0.1 Forwarded=for=192.0.2.1; ip=10.0.0.1 Forwarded=for=192.0.2.2"},
	{fields: "client_ip.x_real_ip", file: with("client_ip: {«|x_real_ip: [10.0.0.0/8]»}"), ask: "ip=10.0.0.1 X-Real-Ip=192.0.2.1; ip=10.0.0.1 X-Real-Ip=192.0.2.2"},
	{fields: "client_ip.cloudflare", file: with("client_ip: {«|cloudflare: {}»}"), ask: "ip=173.245.48.1 Cf-Connecting-Ip=192.0.2.1; ip=173.245.48.1 Cf-Connecting-Ip=192.0.2.2"},
	{fields: "cloudflare.between", file: with("client_ip: {cloudflare: {«|between: [10.0.0.0/8]»}}"), ask: "ip=10.0.0.1 X-Forwarded-For=173.245.48.1 Cf-Connecting-Ip=192.0.2.1; ip=10.0.0.1 X-Forwarded-For=173.245.48.1 Cf-Connecting-Ip=192.0.2.2"},
	{fields: "client_ip.hops", file: with("client_ip: {«|hops: 1»}"), ask: "ip=10.0.0.1 X-Forwarded-For=192.0.2.1; ip=10.0.0.1 X-Forwarded-For=192.0.2.2"},
	{fields: "client_ip.header client_ip.header.from", file: with("client_ip: {«header: {name: X-Cdn, from: [10.9.0.0/16]}|header: {name: X-Cdn, from: [10.0.0.0/8]}»}"), ask: "ip=10.0.0.1 X-Cdn=192.0.2.1; ip=10.0.0.1 X-Cdn=192.0.2.2"},
	{fields: "client_ip.header.name", file: with("client_ip: {header: {name: «X-Other|X-Cdn», from: [10.0.0.0/8]}}"), ask: "ip=10.0.0.1 X-Cdn=192.0.2.1; ip=10.0.0.1 X-Cdn=192.0.2.2"},
	{fields: "client_ip.ipv6_prefix", file: with("client_ip: {«|ipv6_prefix: 56»}"), ask: "ip=2001:db8::1; ip=2001:db8:0:1::1"},
	{fields: "policy.key_secret", file: with("key_secret: \"${env:«SECRET|OTHER»}\""), run: observedKey},
	{fields: "policy.bypass", file: with("bypass: [{from: [198.51.100.0/24«|, 192.0.2.0/24»]}]"), ask: twice},
	{fields: "policy.headers", file: with("headers: [«draft11|draft03»]"), ask: twice},
	{fields: "policy.headers_when", file: with("headers_when: «always|on_denial»"), ask: twice},
	{fields: "policy.missing_key policy.missing_key.status", file: "policies: {p: {«|missing_key: {status: 403}, »limits: {a: {limit: 1/hour, by: user, on_missing_key: deny}}}}", ask: "x=y"},
	{fields: "policy.missing_key.challenge", file: "policies: {p: {missing_key: {status: 401, challenge: «Bearer|Basic»}, limits: {a: {limit: 1/hour, by: user, on_missing_key: deny}}}}", ask: "x=y"},
	{fields: "policy.denial_texts", file: with("denial_texts: {en: \"«Slow down.|{limit}: wait {retry_after} s»\"}"), ask: twice},
	{fields: "policy.timeout", file: with("timeout: «10s|1ms»"), ask: twice, store: func() core.Store { return slow{core.NewMemory(), 50 * time.Millisecond} }},
	{fields: "policy.replicas", file: "policies: {p: {replicas: «1|2», limits: {a: {limit: 4/hour, by: ip}}}}", ask: twice + ";" + twice, store: broken},
	{fields: "policy.fallback", file: "policies: {p: {«|fallback: {f: {limit: 3/hour, by: ip}}, »limits: {a: {limit: 1/hour, by: ip}}}}", ask: twice, store: broken},
	{fields: "policy.max_waiting", file: "policies: {p: {max_waiting: «1|3», limits: {a: {limit: concurrent 1 wait 1m, by: everyone}}}}", run: waiters},
	{fields: "policy.max_waiting_per_key", file: "policies: {p: {max_waiting_per_key: «1|3», limits: {a: {limit: concurrent 1 wait 1m, by: everyone}}}}", run: waiters},
	{fields: "policy.silence", file: "policies: {p: {silence: [WL013«|, WL015»], limits: {a: {limit: 2/hour, by: ip, cost_by: items}}}}", run: advice},
	{fields: "policy.shadow", file: with("shadow: «false|true»"), ask: twice},
	{fields: "policy.choices", file: "policies: {p: {limits: {a: {limit: 1/hour, by: ip}, b: {limit: 9/hour, by: ip}}«|, choices: [[a, b]]»}}", ask: twice},
	{fields: "policy.groups group.limits", file: "policies: {p: {limits: {a: {limit: 9/hour, by: ip}}«|, groups: {g: {when: {methods: [GET]}, limits: {b: {limit: 1/hour, by: ip}}}}»}}", ask: "method=GET ip=192.0.2.1; method=GET ip=192.0.2.1"},
	{fields: "group.when", file: "policies: {p: {groups: {g: {when: {methods: [«POST|GET»]}, limits: {b: {limit: 1/hour, by: everyone}}}}}}", ask: "method=GET; method=GET"},
	{fields: "group.shadow", file: "policies: {p: {groups: {g: {shadow: «false|true», when: {methods: [GET]}, limits: {b: {limit: 1/hour, by: everyone}}}}}}", ask: "method=GET; method=GET"},

	{fields: "limit.limit", file: one("limit: «1/hour|2/hour», by: ip"), ask: twice},
	{fields: "limit.by", file: one("limit: 1/hour, by: «ip|user»"), ask: "ip=192.0.2.1 user=a; ip=192.0.2.1 user=b"},
	{fields: "limit.on_missing_key", file: one("limit: 1/hour, by: user, on_missing_key: «share|skip»"), ask: "x=y; x=y"},
	{fields: "limit.when", file: one("limit: 1/hour, by: everyone«|, when: {methods: [POST]}»"), ask: "method=GET; method=GET"},
	{fields: "limit.unless", file: one("limit: 1/hour, by: everyone«|, unless: {methods: [GET]}»"), ask: "method=GET; method=GET"},
	{fields: "limit.cost", file: one("limit: 2/hour, by: everyone, cost: «1|2»"), ask: "x=y; x=y"},
	{fields: "limit.cost_by", file: one("limit: 2/hour, by: everyone, cost_by: «free|items»"), ask: "items=2; items=2"},
	{fields: "limit.estimate", file: one("limit: 4/hour, by: everyone, estimate: «1|3»"), ask: "x=y; x=y"},
	{fields: "limit.estimate_by", file: one("limit: 4/hour, by: everyone, estimate_by: «free|items»"), ask: "items=3; items=3"},
	{fields: "limit.spill_over", file: "policies: {p: {limits: {a: {limit: 2/hour, by: everyone, estimate: 1, spill_over: «false|true»}, b: {limit: 9/hour, by: everyone, estimate: 1}}, choices: [[a, b]]}}", run: leftAfterSpending},
	{fields: "limit.up_to_burst", file: one("limit: 4/hour, by: everyone, estimate: 3, tiers: {by: plan, limits: {free: 2/hour}}, up_to_burst: «false|true»"), ask: "plan=free; plan=free"},
	{fields: "limit.once_per limit.once_per.key", file: one("limit: 1/hour, by: everyone, once_per: {key: {header: «X-None|Idempotency-Key»}, for: 1h}"), ask: "Idempotency-Key=1; Idempotency-Key=1"},
	{fields: "limit.once_per.repeats", file: one("limit: 1/hour, by: everyone, once_per: {key: {header: Idempotency-Key}, for: 1h«|, repeats: 1»}"), ask: "Idempotency-Key=1; Idempotency-Key=1; Idempotency-Key=1"},
	{fields: "limit.once_per.for", file: one("limit: 1/hour, by: everyone, once_per: {key: {header: Idempotency-Key}, for: «1h|1s»}"), ask: "Idempotency-Key=1; wait=1100ms; Idempotency-Key=1"},
	{fields: "limit.tiers limit.tiers.limits", file: one("limit: 1/hour, by: everyone, tiers: {by: plan, limits: {«free|pro»: 2/hour}}"), ask: "plan=pro; plan=pro"},
	{fields: "limit.tiers.by value.stored", file: one("limit: 1/hour, by: everyone, tiers: {by: {stored: «level|plan»}, limits: {pro: 2/hour}}"), ask: "plan=pro; plan=pro"},
	{fields: "value.header", file: one("limit: 1/hour, by: everyone, tiers: {by: {header: «X-Level|X-Plan»}, limits: {pro: 2/hour}}"), ask: "X-Plan=pro; X-Plan=pro"},
	{fields: "limit.fair", file: one("limit: 4/hour, by: everyone«|, fair: {by: user}»"), ask: "user=a"},
	{fields: "fair.by", file: one("limit: 4/hour, by: everyone, fair: {by: «user|ip»}"), ask: many("user=%d ip=192.0.2.1", 4)},
	{fields: "fair.within", file: one("limit: 8/hour, by: everyone, fair: {by: everyone«|, within: user»}"), ask: many("user=%d", 4) + "; user=0; user=0; user=1"},
	{fields: "fair.of fair.shares share.maximum", file: one("limit: 8/hour, by: everyone, fair: {by: user, of: «plan|{stored: level}», shares: {pro: {maximum: 1}}}"), ask: "user=a plan=pro; user=a plan=pro"},
	{fields: "share.weight", file: one("limit: 8/hour, by: everyone, fair: {by: user, of: plan, shares: {pro: {weight: «1|3»}}}"), ask: many("user=%d plan=pro", 2) + ";" + many("user=%d", 4) + "; user=1 plan=pro; user=1 plan=pro"},
	{fields: "share.minimum", file: one("limit: 8/hour, by: everyone, fair: {by: user, of: plan, shares: {pro: {minimum: «1|3»}}, guaranteed: 3}"), ask: "user=a plan=pro; user=a plan=pro; user=a plan=pro"},
	{fields: "fair.guaranteed", file: one("limit: 8/hour, by: everyone, fair: {by: user, of: plan, shares: {pro: {minimum: 1}}, guaranteed: «1|4»}"), ask: many("user=a x=%d", 6)},
	{fields: "limit.scale", file: one("limit: 2/hour, by: everyone, scale: «whole|half»"), ask: "x=y; x=y"},
	{fields: "limit.keep_free limit.keep_free.share", file: one("limit: 4/hour, by: everyone, keep_free: {share: «0.25|0.75», for: {methods: [POST]}}"), ask: "method=GET; method=GET"},
	{fields: "limit.keep_free.for", file: one("limit: 4/hour, by: everyone, keep_free: {share: 0.75, for: {methods: [«POST|GET»]}}"), ask: "method=GET; method=GET"},
	{fields: "limit.classes class.keep", file: one("limit: 4/hour, by: everyone, classes: [{name: a, when: {methods: [POST]}, keep: «0.25|0.75»}, {name: b}]"), ask: "method=GET; method=GET"},
	{fields: "class.when", file: one("limit: 4/hour, by: everyone, classes: [{name: a, when: {methods: [«POST|GET»]}, keep: 0.75}, {name: b}]"), ask: "method=GET; method=GET"},
	{fields: "class.name", file: one("limit: 4/hour, by: everyone, classes: [{name: «a|c», when: {methods: [POST]}, keep: 0.75}, {name: b}]"), run: classOfPost},
	{fields: "limit.refund_on", file: one("limit: 1/hour, by: everyone, refund_on: [«server_errors|server_errors, successes»]"), ask: "status=200; status=200"},
	{fields: "limit.slow_down limit.slow_down.from", file: one("limit: 10/hour, by: everyone, cost: 5, slow_down: {from: «0.9|0.1», up_to: 20ms}"), ask: "x=y"},
	{fields: "limit.slow_down.up_to", file: one("limit: 10/hour, by: everyone, cost: 10, slow_down: {from: 0.5, up_to: «1us|300ms»}"), run: delayed},
	{fields: "limit.warn_at", file: one("limit: 2/hour, by: everyone, warn_at: [«1|0.5»]"), ask: "x=y"},
	{fields: "limit.penalty limit.penalty.after", file: one("limit: 1/hour, by: everyone, penalty: {after: «3|1», within: 1h, for: 1h}"), ask: "x=y; x=y"},
	{fields: "limit.penalty.within", file: one("limit: 1/hour, by: everyone, penalty: {after: 2, within: «1h|1ms», for: 1h}"), ask: "x=y; x=y; wait=5ms; x=y"},
	{fields: "limit.penalty.for", file: one("limit: 1/hour, by: everyone, penalty: {after: 1, within: 1h, for: «2h|3h»}"), ask: "x=y; x=y"},
	{fields: "limit.penalty.factor", file: one("limit: 1/ms, by: everyone, cost: 1, penalty: {after: 1, within: 1h, for: 5ms, factor: «1|1000»}"), run: blockedTwice},
	{fields: "limit.penalty.max", file: one("limit: 1/ms, by: everyone, cost: 1, penalty: {after: 1, within: 1h, for: 5ms, factor: 1000, max: «5ms|5s»}"), run: blockedTwice},
	{fields: "limit.on_outage", file: one("limit: 1/hour, by: everyone, on_outage: «allow|deny»"), ask: "x=y", store: broken},
	{fields: "limit.regions", file: one("limit: 1/hour, by: everyone, regions: «each|home»"), ask: "x=y", store: func() core.Store { return inRegion(broken()) }},
	{fields: "limit.overdraft", file: one("limit: 1/hour fixed, by: everyone, overdraft: «0|1»"), ask: "x=y; x=y", store: func() core.Store { return inRegion(core.NewMemory()) }},
	{fields: "limit.hidden", file: one("limit: 1/hour, by: everyone, hidden: «false|true»"), ask: "x=y"},
	{fields: "limit.status", file: one("limit: 1/hour, by: everyone, status: «402|403»"), ask: "x=y; x=y"},
	{fields: "limit.shadow", file: one("limit: 1/hour, by: everyone, shadow: «false|true»"), ask: "x=y; x=y"},

	{fields: "keyOf.user", file: one("limit: 1/hour, by: {user: «user|uid»}"), ask: "user=a uid=a; user=a uid=b"},
	{fields: "keyOf.tenant", file: one("limit: 1/hour, by: {tenant: «tenant|org»}"), ask: "tenant=a org=a; tenant=a org=b"},
	{fields: "keyOf.api_key", file: one("limit: 1/hour, by: {api_key: [«X-Other|X-Key»]}"), ask: "X-Key=abcdef; X-Key=ghijkl"},
	{fields: "keyOf.header", file: one("limit: 1/hour, by: {header: «X-Other|X-T»}"), ask: "X-T=a; X-T=b"},
	{fields: "keyOf.cookie", file: one("limit: 1/hour, by: {cookie: «other|sid»}"), ask: "sid=a; sid=b"},
	{fields: "keyOf.query", file: one("limit: 1/hour, by: {query: «other|q»}"), ask: "q=a; q=b"},
	{fields: "keyOf.param", file: one("limit: 1/hour, by: {param: «other|id»}"), ask: "id=a; id=b"},
	{fields: "keyOf.first", file: one("limit: 1/hour, by: {first: [«ip|user», ip]}"), ask: "user=a ip=192.0.2.1; user=b ip=192.0.2.1"},

	{fields: "condition.routes", file: group("routes: [POST /«x|login»]"), ask: "method=POST route=/login; method=POST route=/login"},
	{fields: "condition.paths", file: group("paths: [/«x|api»/*]"), ask: "path=/api/a; path=/api/a"},
	{fields: "condition.methods", file: group("methods: [«PUT|POST»]"), ask: "method=POST; method=POST"},
	{fields: "condition.from", file: group("from: [«198.51.100.0/24|192.0.2.0/24»]"), ask: twice},
	{fields: "condition.tokens condition.tokens.values", file: group("tokens: {header: X-Token, values: [\"${env:«SECRET|OTHER»}\"]}"), ask: "X-Token=0123456789abcdef-other; X-Token=0123456789abcdef-other"},
	{fields: "condition.tokens.header", file: group("tokens: {header: «X-Other|X-Token», values: [\"${env:OTHER}\"]}"), ask: "X-Token=0123456789abcdef-other; X-Token=0123456789abcdef-other"},
	{fields: "condition.header condition.header.name", file: group("header: {name: «X-Other|X-A»}"), ask: "X-A=1; X-A=1"},
	{fields: "condition.header.is", file: group("header: {name: X-A, is: [«x|a»]}"), ask: "X-A=a; X-A=a"},
	{fields: "condition.value condition.value.of", file: group("value: {of: «{stored: level}|plan», is: [pro]}"), ask: "plan=pro; plan=pro"},
	{fields: "condition.value.is", file: group("value: {of: plan, is: [«free|pro»]}"), ask: "plan=pro; plan=pro"},
	{fields: "condition.percent condition.percent.up_to", file: group("percent: {of: user, up_to: «0|100»}"), ask: "user=a; user=a"},
	{fields: "condition.percent.of", file: group("percent: {of: «user|{user: other}», up_to: 50}"), ask: many("user=%d other=3", 12)},
	{fields: "condition.preflight", file: "policies: {p: {limits: {a: {limit: 1/hour, by: everyone, «when: {methods: [OPTIONS]}|unless: {preflight: true}»}}}}", ask: preflights},
	{fields: "condition.condition", file: group("condition: «never|always»"), ask: "x=y; x=y"},
	{fields: "condition.all", file: group("all: [{methods: [GET]}, {methods: [GET«|, POST»]}, {methods: [POST«, GET|»]}]"), ask: "method=GET; method=GET"},
	{fields: "condition.any", file: group("any: [{methods: [PUT]}, {methods: [POST«|, GET»]}]"), ask: "method=GET; method=GET"},
	{fields: "condition.not", file: group("not: {methods: [«GET|POST»]}"), ask: "method=GET; method=GET"},
}

const preflights = "method=OPTIONS route= Origin=https://a.example Access-Control-Request-Method=GET; method=OPTIONS route= Origin=https://a.example Access-Control-Request-Method=GET"

// withoutEffect are fields that decide nothing.
var withoutEffect = []string{"file.$schema", "policy.description", "group.description", "limit.description"}

func many(format string, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(all, "; ")
}

func TestEachFieldChangesADecision(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{}
	for _, name := range withoutEffect {
		covered[name] = true
	}
	for _, c := range fieldCases {
		for name := range strings.FieldsSeq(c.fields) {
			if covered[name] {
				t.Errorf("%s is there twice", name)
			}
			covered[name] = true
		}
		t.Run(c.fields, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if first, second := c.decide(t, 0), c.decide(t, 1); first == second {
					t.Errorf("both files decide the same:\n%s", first)
				}
			})
		})
	}
	all := schemaFields(t)
	for name := range all {
		if !covered[name] {
			t.Errorf("no case has the field %s", name)
		}
	}
	for name := range covered {
		if !all[name] {
			t.Errorf("the schema has no field %s", name)
		}
	}
}

// variant returns the first or second file.
func (c *fieldCase) variant(n int) string {
	var b strings.Builder
	rest := c.file
	for {
		before, after, found := strings.Cut(rest, "«")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		either, more, _ := strings.Cut(after, "»")
		choices := strings.SplitN(either, "|", 2)
		b.WriteString(choices[n])
		rest = more
	}
}

func (c *fieldCase) decide(t *testing.T, n int) string {
	t.Helper()
	var log strings.Builder
	set, err := policy.Parse("test.yaml", []byte(c.variant(n)), policy.Options{
		Values: map[string]func(keyfuncs.Request) string{"plan": func(r keyfuncs.Request) string { plan, _ := r.Value("plan").(string); return plan }},
		Costs: map[string]func(keyfuncs.Request) int64{
			"free": func(keyfuncs.Request) int64 { return 0 },
			"items": func(r keyfuncs.Request) int64 {
				n, _ := strconv.ParseInt(fmt.Sprint(r.Value("items")), 10, 64)
				return n
			},
		},
		Scales:     map[string]func(context.Context) float64{"whole": func(context.Context) float64 { return 1 }, "half": func(context.Context) float64 { return 0.5 }},
		Conditions: map[string]keyfuncs.Condition{"never": keyfuncs.Matches(func(keyfuncs.Request) bool { return false }), "always": keyfuncs.Matches(func(keyfuncs.Request) bool { return true })},
		Env: func(name string) (string, bool) {
			value, ok := map[string]string{"SECRET": "0123456789abcdef-secret", "OTHER": "0123456789abcdef-other"}[name]
			return value, ok
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	counts := core.Store(core.NewMemory())
	if c.store != nil {
		counts = c.store()
	}
	l := must.Get(set.Limiter(core.Config{Store: counts, Logger: slog.New(slog.NewTextHandler(&log, nil))}, "p"))(t)
	if c.run != nil {
		return c.run(t, l, &log)
	}
	var told strings.Builder
	for written := range strings.SplitSeq(c.ask, ";") {
		written = strings.TrimSpace(written)
		if wait, ok := strings.CutPrefix(written, "wait="); ok {
			d, _ := time.ParseDuration(wait)
			time.Sleep(d) // in a bubble, see where this is called
			continue
		}
		r := requestOf(written)
		d := l.Allow(r)
		h := http.Header{}
		d.SetHeaders(h)
		body, _ := d.AppendProblem(nil, "en")
		version := "" // of files that name none it is a hash, which tells any two files apart
		if c.fields == "file.version" {
			version = d.Version()
		}
		fmt.Fprintf(&told, "%s: %v %d %v %q %s\n", written, d.Reason, d.Status(), h, version, body)
		for _, result := range d.Results() {
			if result.Standing != store.Undivided {
				fmt.Fprintf(&told, "%v of %d\n", result.Standing, result.Share)
			}
		}
		if status, _ := strconv.Atoi(r.Values["status"].(string)); status > 0 {
			d.Settle(core.Outcome{Status: status})
			must.OK(t, l.Drain(t.Context()))
		}
	}
	return told.String()
}

// request is a request of a test, such as "ip=192.0.2.1 X-A=b path=/login".
type request struct{ keyfuncs.Values }

func (r request) Path() string { path, _ := r.Values["path"].(string); return path }

func requestOf(written string) request {
	r := request{keyfuncs.Values{"status": "0"}}
	for pair := range strings.FieldsSeq(written) {
		name, value, _ := strings.Cut(pair, "=")
		r.Values[name] = value
	}
	return r
}

// schemaFields returns the fields of the schema: of a named object by its name.
func schemaFields(t *testing.T) map[string]bool {
	t.Helper()
	var schema map[string]any
	must.OK(t, json.Unmarshal(policy.Schema(), &schema))
	all := map[string]bool{}
	var walk func(at string, s any)
	walk = func(at string, s any) {
		object, ok := s.(map[string]any)
		if !ok {
			return
		}
		if properties, ok := object["properties"].(map[string]any); ok {
			for name, of := range properties {
				all[at+"."+name] = true
				if at != "file" || name != "defaults" { // they are those of a policy
					walk(at+"."+name, of)
				}
			}
		}
		for _, within := range []string{"items", "additionalProperties"} {
			walk(at, object[within])
		}
		for _, within := range []string{"anyOf"} {
			of, _ := object[within].([]any)
			for _, s := range of {
				walk(at, s)
			}
		}
	}
	walk("file", schema)
	for name, s := range schema["$defs"].(map[string]any) {
		walk(name, s)
	}
	return all
}

// slow is a store that takes its time.
type slow struct {
	core.Store
	time time.Duration
}

func (s slow) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	select {
	case <-time.After(s.time):
		return s.Store.Take(ctx, checks, results)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// out is a store that does not answer.
type out struct{ core.Store }

func (out) Take(context.Context, []core.Check, []core.Result) error { return errors.New("down") }

func broken() core.Store { return out{core.NewMemory()} }

// inRegion is the store of one of two regions.
func inRegion(home core.Store) core.Store {
	s, err := regions.New(core.NewMemory(), home, regions.Config{Region: "eu", Regions: 2})
	if err != nil {
		panic(err)
	}
	return s
}

// observedKey returns whether the client is known under its plain key, or under which other.
func observedKey(t *testing.T, l *core.Limiter, _ *strings.Builder) string {
	r := requestOf("ip=192.0.2.1")
	l.Allow(r)
	secret := keyfuncs.ClientIP().WithSecret([]byte("0123456789abcdef-secret"))
	key, _ := secret.Key(r)
	d := must.Get(l.Peek(t.Context(), key, 1))(t)
	return fmt.Sprint(d.Allowed)
}

// waiters returns how many of four requests are denied while one runs.
func waiters(t *testing.T, l *core.Limiter, _ *strings.Builder) string {
	running := l.Allow(requestOf("x=y"))
	denied := make(chan bool, 3)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			d := l.Allow(requestOf("x=y"))
			if !d.Allowed && d.Reason == core.ReasonLimitExceeded {
				denied <- true
			}
			d.Settle(core.Outcome{})
		})
	}
	wait.Until(t, "the requests wait or are denied", func() bool { return int(l.Stats().Waiting)+len(denied) >= 3 || len(denied) == 2 })
	n := len(denied)
	running.Settle(core.Outcome{})
	all.Wait()
	return fmt.Sprint(n)
}

// advice returns whether the limiter advises of a cost that never fits. The process logs each advice
// once, and no other case gives reason for this one.
func advice(_ *testing.T, l *core.Limiter, log *strings.Builder) string {
	l.Allow(requestOf("ip=192.0.2.1 items=5"))
	return fmt.Sprint(strings.Contains(log.String(), "WL015"))
}

// classOfPost returns the class of a POST.
func classOfPost(_ *testing.T, l *core.Limiter, _ *strings.Builder) string {
	d := l.Allow(requestOf("method=POST"))
	return d.Class("a")
}

// delayed returns whether a request had to wait.
func delayed(_ *testing.T, l *core.Limiter, _ *strings.Builder) string {
	d := l.Allow(requestOf("x=y"))
	return fmt.Sprint(d.Delay() > 200*time.Millisecond)
}

// blockedTwice returns whether the second block is long.
func blockedTwice(t *testing.T, l *core.Limiter, _ *strings.Builder) string {
	for blocks := 0; ; {
		d := l.AllowKey(t.Context(), "k", 1)
		if d.Reason != core.ReasonBlocked {
			continue
		}
		if blocks++; blocks == 2 {
			return fmt.Sprint(d.RetryAfter > time.Second)
		}
		time.Sleep(d.RetryAfter + time.Millisecond)
	}
}

// The references of the cases above are to an environment; files are read, too.
func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "token")
	write(t, name, "0123456789abcdef-file\n")
	text := fmt.Sprintf("policies: {p: {bypass: [{tokens: {header: X-T, values: [\"${file:%s}\"]}}], limits: {a: {limit: 1/hour, by: ip}}}}", name)
	set := must.Get(policy.Parse("x", []byte(text)))(t)
	l := limiterOf(t, set, core.NewMemory(), "p")
	check.Equal(t, "with the token", l.Allow(requestOf("ip=192.0.2.1 X-T=0123456789abcdef-file")).Reason, core.ReasonBypassed)
	for what, content := range map[string]string{"empty": "\n", "too long": strings.Repeat("x", 5000), "too short": "short"} {
		write(t, name, content)
		if _, err := policy.Parse("x", []byte(text)); err == nil || strings.Contains(err.Error(), "xxx") || strings.Contains(err.Error(), `"short`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must.OK(t, os.Remove(name))
	must.OK(t, os.Mkdir(name, 0o700)) // as for a pipe, whose end would never come
	if _, err := policy.Parse("x", []byte(text)); !strings.Contains(fmt.Sprint(err), "is not a regular file") {
		t.Errorf("no regular file: %v", err)
	}
	must.OK(t, os.Remove(name))
	if _, err := policy.Parse("x", []byte(text)); !strings.Contains(fmt.Sprint(err), "no such file") {
		t.Errorf("no file: %v", err)
	}
}

// leftAfterSpending returns what limits have left after a request that has cost more than its estimate.
func leftAfterSpending(t *testing.T, l *core.Limiter, _ *strings.Builder) string {
	t.Helper()
	d := l.AllowKey(t.Context(), "everyone", 1)
	must.OK(t, core.Spend(core.NewContext(t.Context(), d), 4))
	d.Settle(core.Outcome{Status: 200})
	must.OK(t, l.Drain(t.Context()))
	after := must.Get(l.Peek(t.Context(), "everyone", 1))(t)
	var left []string
	for _, r := range after.Results() {
		left = append(left, fmt.Sprint(r.Rule.Name, r.Remaining))
	}
	return strings.Join(left, " ")
}
