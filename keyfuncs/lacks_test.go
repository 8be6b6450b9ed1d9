package keyfuncs_test

import (
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/keyfuncs"
)

func TestLacks(t *testing.T) {
	t.Parallel()
	none := func(keyfuncs.Request) (string, bool) { return "", false }
	user, tenant := keyfuncs.User("u"), keyfuncs.Header("x-tenant")
	for _, tt := range []struct {
		name      string
		key       keyfuncs.Func
		what      string
		challenge string
	}{
		{"a header", tenant, "x-tenant header", ""},
		{"a cookie", keyfuncs.Cookie("sid"), "sid cookie", ""},
		{"a user", user, "authenticated user", "Bearer"},
		{"a user of the application's own", keyfuncs.Custom("user", none), "authenticated user", "Bearer"},
		{"a tenant", keyfuncs.Tenant("t"), "tenant", "Bearer"},
		{"anything else of the application's own", keyfuncs.Custom("plan", none), "plan", ""},
		{"an address", keyfuncs.ClientIP(), "client address", ""},
		{"what the address belongs to", keyfuncs.Lookup("asn", nil), "", ""}, // invalid
		{"an API key", keyfuncs.APIKey(), "API key", `Bearer, ApiKey in="header", name="X-API-Key"`},
		{"an API key by query", keyfuncs.APIKey(`?k"\` + "\r\n\xff"), "API key", `ApiKey in="query", name="k\"\\???"`},
		{"a hidden API key", keyfuncs.APIKey("X-Key").WithSecret([]byte("0123456789abcdef")), "API key", `ApiKey in="header", name="X-Key"`},
		{"all keys that are joined", keyfuncs.Join(user, tenant), "authenticated user", "Bearer"},
		{"one key of those", keyfuncs.Join(keyfuncs.Everyone(), tenant, user), "x-tenant header", ""},
		{"a nested one", keyfuncs.Join(keyfuncs.Everyone(), keyfuncs.Join(keyfuncs.Method(), user)).WithSecret([]byte("0123456789abcdef")), "authenticated user", "Bearer"},
		{"each of several", keyfuncs.First(user, keyfuncs.APIKey("Authorization"), tenant), "authenticated user or API key or x-tenant header", "Bearer"},
		{"several joined to another", keyfuncs.Join(keyfuncs.Method(), keyfuncs.First(user, tenant)), "authenticated user or x-tenant header", "Bearer"},
		{"several, of which one is joined", keyfuncs.First(keyfuncs.Join(user, tenant), keyfuncs.Cookie("sid")), "authenticated user and x-tenant header or sid cookie", "Bearer"},
		{"none", keyfuncs.Everyone(), "", ""},
		{"the zero Func", keyfuncs.Func{}, "", ""},
	} {
		if what, challenge := tt.key.Lacks(&request{method: "GET"}); what != tt.what || challenge != tt.challenge {
			t.Errorf("%s: %q and %q, want %q and %q", tt.name, what, challenge, tt.what, tt.challenge)
		}
	}
	// What is there, or there twice, is not missing.
	twice := &request{headers: http.Header{"X-Tenant": {"a", "b"}}}
	once := &request{headers: http.Header{"X-Tenant": {"a"}}, values: map[any]any{"u": "alice"}}
	for _, r := range []*request{twice, once} {
		if what, challenge := tenant.Lacks(r); what != "" || challenge != "" {
			t.Errorf("%v: %q and %q are missing", r.headers, what, challenge)
		}
	}
	if what, _ := keyfuncs.Join(user, keyfuncs.Cookie("sid")).Lacks(once); what != "sid cookie" {
		t.Errorf("of a user and a cookie %q is missing, want the cookie", what)
	}
}
