package keyfuncs_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestValuesAreARequest(t *testing.T) {
	t.Parallel()
	v := keyfuncs.Values{
		"user": 42, "plan": "premium", "X-Api-Key": "secret", "sid": "abc", "q": "books", "id": "7",
		"ip": "2001:db8::1", "method": "POST", "route": "/jobs", "Host": "Shop.Example:1",
	}
	wantKey(t, keyfuncs.User("user"), v, "user:42")
	wantKey(t, keyfuncs.Tenant("plan"), v, "tenant:premium")
	wantKey(t, keyfuncs.User("nobody"), v, "")
	wantKey(t, keyfuncs.User(7), v, "")
	wantKey(t, keyfuncs.APIKey(), v, hashed("apikey", "secret"))
	wantKey(t, keyfuncs.Cookie("sid"), v, hashed("cookie.sid", "abc"))
	wantKey(t, keyfuncs.Query("q"), v, "query.q:books")
	wantKey(t, keyfuncs.Param("id"), v, "param.id:7")
	wantKey(t, keyfuncs.Host(), v, "host:shop.example")
	wantKey(t, keyfuncs.ClientIP(), v, "ip:2001:db8::/64")
	wantKey(t, keyfuncs.ClientIP(), keyfuncs.Values{"ip": netip.MustParseAddr("::ffff:192.0.2.1")}, "ip:192.0.2.1")
	wantKey(t, keyfuncs.ClientIP(), keyfuncs.Values{"ip": "x"}, "")
	wantKey(t, keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8")), keyfuncs.Values{"X-Forwarded-For": "192.0.2.1"}, "")
	wantKey(t, keyfuncs.Method(), v, "method:POST")
	wantKey(t, keyfuncs.Route(), v, "route:/jobs")
	wantMatch(t, keyfuncs.Routes("POST /jobs"), v, true)
	wantMatch(t, keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value("plan") == "premium" }), v, true)
	check.Equal(t, "without a route", keyfuncs.Routes("/jobs").Ask(keyfuncs.Values{}), keyfuncs.Unknown)
	if v.Path() != "" || v.Context() != context.Background() {
		t.Error("a path or a context that nobody has given")
	}
}

// The case of a header's name does not count, and two of them are two lines.
func TestValuesAsHeadersInAnyCase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"x-api-key", "X-API-Key", "X-Api-Key"} {
		wantKey(t, keyfuncs.APIKey(), keyfuncs.Values{name: "secret", "user": "42"}, hashed("apikey", "secret"))
		wantKey(t, keyfuncs.Header(name), keyfuncs.Values{"X-Api-Key": "secret", "x-api-key-2": "other"}, hashed("header.x-api-key", "secret"))
	}
	wantKey(t, keyfuncs.Header("X-Tenant"), keyfuncs.Values{"x-tenant": 42}, "")
	two := keyfuncs.Values{"x-tenant": "b", "X-Tenant": "a"}
	_, p := keyfuncs.Header("X-Tenant").Append(nil, two)
	check.Equal(t, "two headers", p, keyfuncs.Ambiguous)
	for i, want := range []string{"a", "b"} {
		got, ok := two.Header("X-Tenant", i)
		check.All(t, fmt.Sprint("line ", i), []any{got, ok}, want, true)
	}
	for _, name := range []string{"Sid", "SID"} {
		wantKey(t, keyfuncs.Cookie(name), keyfuncs.Values{"sid": "abc"}, "")
		wantKey(t, keyfuncs.Query(name), keyfuncs.Values{"sid": "abc"}, "")
	}
}

func TestValuesInAContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "alice")
	r := keyfuncs.Values{"plan": "free", "id": "7"}.WithContext(ctx)
	wantKey(t, keyfuncs.User(key{}), r, "user:alice")
	wantKey(t, keyfuncs.Tenant("plan"), r, "tenant:free")
	wantKey(t, keyfuncs.Param("id"), r, "param.id:7")
	if r.Context() != ctx {
		t.Error("another context")
	}
}
