package core_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestOnMissingKey(t *testing.T) {
	t.Parallel()
	byUser := core.PerHour(2).By(keyfuncs.User("userID")).Named("user")
	byTenant := core.PerHour(7).By(keyfuncs.Header("X-Tenant")).Named("tenant")
	all := everyone(9).Named("all")
	type answer struct {
		allowed   bool
		reason    core.Reason
		remaining []int64
	}
	within := func(n ...int64) answer { return answer{true, core.ReasonWithinLimit, n} }
	exceeded := func(n ...int64) answer { return answer{false, core.ReasonLimitExceeded, n} }
	missing := answer{false, core.ReasonMissingKey, []int64{0}}
	for _, tt := range []struct {
		name   string
		limits []core.Limit
		want   []answer // of requests without user and tenant, one after the other
		asked  int64    // how often the store was
	}{
		{"by default all share a bucket", []core.Limit{byUser}, []answer{within(1), within(0), exceeded(0)}, 3},
		{"ShareBucket is that default", []core.Limit{byUser.OnMissingKey(core.ShareBucket)}, []answer{within(1), within(0), exceeded(0)}, 3},
		{"DenyRequest denies", []core.Limit{byUser.OnMissingKey(core.DenyRequest)}, []answer{missing, missing}, 0},
		{"SkipLimit passes over the limit", []core.Limit{byUser.OnMissingKey(core.SkipLimit)}, []answer{within(), within(), within()}, 0},
		{"SkipLimit leaves it to the others", []core.Limit{byUser.OnMissingKey(core.SkipLimit), all}, []answer{within(8), within(7)}, 2},
		{"DenyRequest charges no other limit", []core.Limit{all, byUser.OnMissingKey(core.DenyRequest)}, []answer{missing, missing}, 0},
		{"DenyRequest in front charges no other limit", []core.Limit{byUser.OnMissingKey(core.DenyRequest), all}, []answer{missing}, 0},
		{"SkipLimit does not hide a denial", []core.Limit{byTenant.OnMissingKey(core.SkipLimit), byUser.OnMissingKey(core.DenyRequest)}, []answer{missing}, 0},
		{"SkipLimit beside a shared bucket", []core.Limit{byTenant.OnMissingKey(core.SkipLimit), byUser}, []answer{within(1), within(0), exceeded(0)}, 3},
		{"two shared buckets are apart", []core.Limit{byTenant, byUser}, []answer{within(6, 1), within(5, 0), exceeded(5, 0)}, 3},
		{"all three", []core.Limit{byUser, byTenant.OnMissingKey(core.SkipLimit), core.PerHour(1).By(keyfuncs.APIKey()).Named("key").OnMissingKey(core.DenyRequest)}, []answer{missing}, 0},
		{"one part of a joined key is enough to miss", []core.Limit{core.PerHour(5).By(keyfuncs.Everyone(), keyfuncs.User("userID")).OnMissingKey(core.DenyRequest)}, []answer{missing}, 0},
		{"a limit that does not apply denies nothing", []core.Limit{byUser.OnMissingKey(core.DenyRequest).When(keyfuncs.Methods("POST")), all}, []answer{within(8)}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newFlaky(false)
			l := limiterOn(t, store, tt.limits...)
			for i, want := range tt.want {
				d := l.Allow(&request{})
				wantDecision(t, fmt.Sprint("request ", i+1), d, want.allowed, want.reason, want.remaining...)
				if len(want.remaining) == 0 {
					wantNothingTold(t, "no limit applies", d)
				}
			}
			check.Equal(t, "calls of the store", store.calls.Load(), tt.asked)
			// A request with the key has its own bucket, whatever the others did.
			d := l.Allow(&request{values: map[any]any{"userID": "alice"}, headers: map[string]string{"X-Tenant": "acme", "X-Api-Key": "0123456789abcdef"}})
			wantAllowed(t, "a request with all keys", d)
		})
	}
}

// Clients retry a 429, which can't help here.
func TestDenialForAMissingKey(t *testing.T) {
	t.Parallel()
	for when, policy := range map[core.HeadersWhen]string{
		core.Always:    `"all";q=9;w=3600, "user";q=2;w=3600`,
		core.NearLimit: `"all";q=9;w=3600, "user";q=2;w=3600`,
		core.OnDenial:  `"all";q=9;w=3600, "user";q=2;w=3600`,
		core.Never:     "",
	} {
		store := newFlaky(true) // nor does an outage matter
		l := newLimiter(t, core.Config{Store: store, Headers: everyDialect, HeadersWhen: when, Limits: []core.Limit{
			everyone(9).Named("all"),
			core.PerHour(2).By(keyfuncs.Header("X-Tenant")).Named("user").OnMissingKey(core.DenyRequest).WarnAt(0.1),
		}})
		d := l.Allow(&request{})
		check.All(t, "status, wait, error and what is missing", []any{d.Status(), d.RetryAfter, d.Err, d.Missing()}, http.StatusBadRequest, time.Duration(0), nil, "X-Tenant header")
		check.Equal(t, "what binds a request that no limit was asked about", binding(d), "")
		wantProblem(t, &d, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"The request has no X-Tenant header."}`)
		wantHeaders(t, &d, policy, "", "")
		check.Equal(t, "logged", logged(t, d), `{"decision":{"allowed":false,"reason":"missing key","missing":"X-Tenant header"}}`)
		check.Equal(t, "calls of the store", store.calls.Load(), 0)
	}
}

func TestTheAnswerToAMissingKey(t *testing.T) {
	t.Parallel()
	user, tenant := keyfuncs.User("userID"), keyfuncs.Header("X-Tenant")
	for _, tt := range []struct {
		name      string
		key       keyfuncs.Func
		answer    core.MissingKeyAnswer
		status    int
		title     string
		challenge string
		missing   string
	}{
		{"a user", user, core.MissingKeyAnswer{}, 401, `"title":"Unauthorized",`, "Bearer", "authenticated user"},
		{"a user, with a challenge", user, core.MissingKeyAnswer{Challenge: `Basic realm="api"`}, 401, `"title":"Unauthorized",`, `Basic realm="api"`, "authenticated user"},
		{"a header, with a challenge for credentials", tenant, core.MissingKeyAnswer{Challenge: "Bearer"}, 400, `"title":"Bad Request",`, "", "X-Tenant header"},
		{"a header, 401", tenant, core.MissingKeyAnswer{Status: 401, Challenge: "Bearer"}, 401, `"title":"Unauthorized",`, "Bearer", "X-Tenant header"},
		{"a user, 403", user, core.MissingKeyAnswer{Status: 403}, 403, `"title":"Forbidden",`, "", "authenticated user"},
		{"a user, a status without a title", user, core.MissingKeyAnswer{Status: 499}, 499, "", "", "authenticated user"},
	} {
		l := newLimiter(t, core.Config{Store: core.NewMemory(), HeadersWhen: core.Never, MissingKey: tt.answer, Limits: []core.Limit{
			core.PerHour(2).By(tt.key).OnMissingKey(core.DenyRequest),
		}})
		d := l.Allow(&request{})
		h := told(d)
		check.Equal(t, tt.name+": challenge and what is missing", [2]string{h.Get("WWW-Authenticate"), d.Missing()}, [2]string{tt.challenge, tt.missing})
		check.Equal(t, tt.name+": status", d.Status(), tt.status)
		wantProblem(t, &d, fmt.Sprintf(`{"type":"about:blank",%s"status":%d,"detail":"The request has no %s."}`, tt.title, tt.status, tt.missing))
		before := http.Header{"Www-Authenticate": {`Basic realm="outer"`}}
		d.SetHeaders(before)
		check.Slices(t, tt.name+": the challenge of an outer middleware", before.Values("WWW-Authenticate"), []string{`Basic realm="outer"`})
	}
	// As before, for those who want it.
	l := newLimiter(t, core.Config{Store: core.NewMemory(), MissingKey: core.MissingKeyAnswer{Status: 429}, Limits: []core.Limit{
		core.PerHour(2).By(user).Named("user").OnMissingKey(core.DenyRequest),
	}})
	d := l.Allow(&request{})
	wantProblem(t, &d, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"The request has no authenticated user.","violated-policies":["user"]}`)
}

// AllowKey says the key itself: none is missing.
func TestAllowKeyPassesOverWhatReadsRequests(t *testing.T) {
	t.Parallel()
	store, _ := at()
	no := keyfuncs.Matches(func(keyfuncs.Request) bool { return false })
	l := limiterOn(t, store, core.PerHour(9).By(keyfuncs.User("userID")).OnMissingKey(core.DenyRequest).
		When(no).CostBy(func(keyfuncs.Request) int64 { return -1 }).
		Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(1) }))
	wantDecision(t, "a key", l.AllowKey(t.Context(), "user:alice", 4), true, core.ReasonWithinLimit, 5)
}
