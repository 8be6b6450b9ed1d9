package weblimittest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/weblimittest"
)

// responses are one response of each kind that limiters give, by name.
func responses(t *testing.T) map[string]*httptest.ResponseRecorder {
	t.Helper()
	store := weblimittest.New(t)
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
	client := core.PerMinute(2).By(keyfuncs.Everyone()).Named("client")
	app := limit(store, ok, client, core.PerDay(9).By(keyfuncs.Everyone()).Named("daily").OnOutage(core.Deny))
	get := func(h http.Handler) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", http.NoBody))
		return w
	}
	own := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "slow down", http.StatusTooManyRequests)
	})
	old := limitBy(core.Must(core.New(core.Config{
		Store: store, Limits: []core.Limit{core.PerMinute(2).By(keyfuncs.Everyone()).Named("old")}, Headers: core.Draft07,
	})), ok)
	found := map[string]*httptest.ResponseRecorder{"allowed": get(app), "no limit": get(http.HandlerFunc(ok)), "an older dialect": get(old)}
	store.Exhaust("client")
	found["denied"], found["a body of its own"] = get(app), get(own)
	store.Fail()
	found["outage"] = get(app)
	return found
}

func TestAssertions(t *testing.T) {
	t.Parallel()
	type R = *httptest.ResponseRecorder
	allowed := func(t testing.TB, r R) { weblimittest.Allowed(t, r) }
	denied := func(limits ...string) func(testing.TB, R) {
		return func(t testing.TB, r R) { weblimittest.Denied(t, r, limits...) }
	}
	policies := func(limits ...string) func(testing.TB, R) {
		return func(t testing.TB, r R) { weblimittest.Policies(t, r, limits...) }
	}
	remaining := func(limit string, n int64) func(testing.TB, R) {
		return func(t testing.TB, r R) { weblimittest.Remaining(t, r, limit, n) }
	}
	retryAfter := func(t testing.TB, r R) { weblimittest.RetryAfter(t, r) }
	found := responses(t)
	for _, tt := range []struct {
		name, response string
		assert         func(testing.TB, R)
		want           string // the first line of the failure, "" for none
	}{
		{"Allowed of a response", "allowed", allowed, ""},
		{"Allowed without limits", "no limit", allowed, ""},
		{"Allowed of a denial", "denied", allowed, `denied by "client", want it allowed`},
		{"Allowed of a denial with a body of its own", "a body of its own", allowed, `denied, want it allowed`},
		{"Allowed of an outage", "outage", allowed, `denied, want it allowed`},
		{"Denied", "denied", denied(), ""},
		{"Denied by name", "denied", denied("client"), ""},
		{"Denied by another", "denied", denied("daily"), `denied by "client", want "daily"`},
		{"Denied by more", "denied", denied("daily", "client"), `denied by "client", want "daily", "client"`},
		{"Denied of a response", "allowed", denied("client"), `not denied, want it denied by "client"`},
		{"Denied of a response, without a name", "allowed", denied(), `not denied by a limit`},
		{"Denied with a body of its own", "a body of its own", denied(), ""},
		{"Denied by name with a body of its own", "a body of its own", denied("client"), `denied, and the body does not name the limit, want "client"`},
		{"Denied of an outage", "outage", denied(), `not denied by a limit`},
		{"Policies", "allowed", policies("daily", "client"), ""},
		{"Policies of none", "no limit", policies(), ""},
		{"Policies of others", "allowed", policies("daily"), `RateLimit-Policy has "client", "daily", want "daily"`},
		{"Policies of none, where there are", "allowed", policies(), `RateLimit-Policy has "client", "daily", want no limit`},
		{"Policies, where there are none", "no limit", policies("daily"), `RateLimit-Policy has no limit, want "daily"`},
		{"Policies in an older dialect", "an older dialect", policies("old"), `RateLimit-Policy has no limit, want "old"`},
		{"Remaining", "allowed", remaining("client", 1), ""},
		{"Remaining of a denial", "denied", remaining("client", 0), ""},
		{"Remaining of another number", "allowed", remaining("daily", 7), `8 left of "daily", want 7`},
		{"Remaining of another limit", "allowed", remaining("clint", 7), `RateLimit does not have "clint", want 7 left of it`},
		{"Remaining without limits", "no limit", remaining("client", 7), `no RateLimit says what is left of "client", want 7`},
		{"Remaining in an older dialect", "an older dialect", remaining("old", 1), `no RateLimit says what is left of "old", want 1`},
		{"RetryAfter", "denied", retryAfter, ""},
		{"RetryAfter of a response", "allowed", retryAfter, `Retry-After is "", want how long to wait`},
	} {
		failure, _ := record(t, func(t testing.TB) { tt.assert(t, found[tt.response]) })
		first, rest, _ := strings.Cut(failure, "\n")
		check.Equal(t, tt.name, first, tt.want)
		if failure != "" && !strings.HasPrefix(rest, "the response: ") {
			t.Errorf("%s does not show the response: %s", tt.name, failure)
		}
	}
}

// A failure shows what the response says of limits.
func TestAFailureShowsTheResponse(t *testing.T) {
	t.Parallel()
	failure, _ := record(t, func(tb testing.TB) { weblimittest.Allowed(tb, responses(t)["denied"]) })
	const want = `denied by "client", want it allowed
the response: 429 Too Many Requests
  RateLimit: "client";r=0;t=30, "daily";r=8;t=76800
  RateLimit-Policy: "client";q=2;w=60, "daily";q=9;w=86400
  Retry-After: 30
  Content-Type: application/problem+json
  {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Rate limit exceeded. Retry in 30 seconds.","violated-policies":["client"]}`
	check.Equal(t, "failure", failure, want)
}

func TestTheBodyCanBeReadAgain(t *testing.T) {
	t.Parallel()
	response := responses(t)["denied"].Result()
	for range 2 {
		weblimittest.Denied(t, response, "client")
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(body), `["client"]`) {
		t.Errorf("%s, %v", body, err)
	}
	check.OK(t, response.Body.Close())
}

func TestAssertionsOnDecisions(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	l := limiterOn(store, perUser(core.Per(1, 1500*time.Millisecond)).Named("x").OnOutage(core.Deny), core.PerHour(9).By(keyfuncs.Everyone()).Named("y").Shadow())
	first, second := l.AllowKey(t.Context(), "user:alice", 1), l.AllowKey(t.Context(), "user:alice", 1)
	weblimittest.Allowed(t, first)
	weblimittest.Remaining(t, first, "x", 0)
	weblimittest.Policies(t, first, "x") // a limit in shadow mode does not show
	weblimittest.Denied(t, second, "x")
	check.Equal(t, "RetryAfter, which need not be rounded", weblimittest.RetryAfter(t, second), 1500*time.Millisecond)
	store.Fail()
	outage := l.AllowKey(t.Context(), "user:bob", 1)
	failures, _ := record(t, func(t testing.TB) {
		weblimittest.Allowed(t, outage)
		weblimittest.Denied(t, outage)
		weblimittest.RetryAfter(t, first)
	})
	for _, want := range []string{"denied, want it allowed\nthe decision: ", "not denied by a limit\nthe decision: ", `Retry-After is "", want`} {
		check.Contains(t, "failures", failures, want)
	}
}
