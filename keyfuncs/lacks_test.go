package keyfuncs_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestLacks(t *testing.T) {
	t.Parallel()
	none := func(keyfuncs.Request) string { return "" }
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
		what, challenge := tt.key.Lacks(&request{method: "GET"})
		check.Equal(t, tt.name, [2]string{what, challenge}, [2]string{tt.what, tt.challenge})
	}
	// What is there, or there twice, is not missing.
	twice := &request{headers: http.Header{"X-Tenant": {"a", "b"}}}
	once := &request{headers: http.Header{"X-Tenant": {"a"}}, values: map[any]any{"u": "alice"}}
	for _, r := range []*request{twice, once} {
		what, challenge := tenant.Lacks(r)
		check.Equal(t, fmt.Sprint(r.headers), [2]string{what, challenge}, [2]string{})
	}
	what, _ := keyfuncs.Join(user, keyfuncs.Cookie("sid")).Lacks(once)
	check.Equal(t, "missing of a user and a cookie", what, "sid cookie")
}
