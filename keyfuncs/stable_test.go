package keyfuncs_test

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Keys are compatible between versions: processes of two releases run side by side on one Redis,
// and applications store what Encode returns. A line changes only with a release that says so.
func TestKeysStayTheSame(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	for _, tt := range []struct{ got, want string }{
		{keyfuncs.Encode("user", "alice"), "user:alice"},
		{keyfuncs.Encode("user", "a b@example.com"), "user:a b@example.com"},
		{keyfuncs.Encode("user", "a|b"), "user#DquKCjOAq_TH0fsLQ7Zqrw"},
		{keyfuncs.Encode("user", "é"), "user#SplVfkAzw1Od4utlRyAXyg"},
		{keyfuncs.Encode("user", strings.Repeat("u", 64)), "user:" + strings.Repeat("u", 64)},
		{keyfuncs.Encode("user", strings.Repeat("u", 65)), "user#8g4knRX6S59EuiHRVPYuHg"},
		{keyfuncs.Encode("tenant", "42"), "tenant:42"},
		{keyfuncs.Encode("apikey", "sk-12345678"), "apikey#23IsnFxfvjNN0OladAbXbw"},
		{keyfuncs.Encode("basic", "alice"), "basic:alice"},
		{keyfuncs.Encode("header.x-tenant", " 42 "), "header.x-tenant:42"},
		{keyfuncs.Encode("header.authorization", "Bearer a"), "header.authorization#EixONx05NJDleJxBivPThQ"},
		{keyfuncs.Encode("cookie.plan", "free"), "cookie.plan#rZXV-mUbqG2JI_4SONJKTw"},
		{keyfuncs.Encode("cookie.session", "abc"), "cookie.session#ungWv48Bz-pBQUDeXa4iIw"},
		{keyfuncs.Encode("param.id", "42"), "param.id:42"},
		{keyfuncs.Encode("query.q", "x y"), "query.q:x y"},
		{keyfuncs.Encode("host", "Example.COM:8080"), "host:example.com"},
		{keyfuncs.Encode("method", "HEAD"), "method:GET"},
		{keyfuncs.Encode("method", "BREW"), "method:other"},
		{keyfuncs.Encode("route", "GET /items/{id}"), "route#jWK7nWduUYc6C8yCjQ4EaA"},
		{keyfuncs.Encode("route", "unmatched"), "route:unmatched"},
		{keyfuncs.Encode("ip", "192.0.2.7"), "ip:192.0.2.7"},
		{keyfuncs.Encode("ip", "::ffff:192.0.2.7"), "ip:192.0.2.7"},
		{keyfuncs.Encode("ip", "2001:db8::1"), "ip:2001:db8::/64"},
		{keyfuncs.Encode("ip", "2001:db8::/56"), "ip:2001:db8::/56"},
		{keyfuncs.Encode("no kind", "x"), "invalid#mYc4dv1wKRNkI6dOn5vfhw"},
		{string(keyfuncs.AppendKey(nil, "tenant:42")), "tenant:42"},
		{string(keyfuncs.AppendKey(nil, "tenant:{42}")), "key#ydZ3ilRqycEEExLtyjGCFQ"},
		{string(keyfuncs.AppendKey(nil, "")), "key#47DEQpj8HBSa-_TImW-5JA"},
		{keyOf(keyfuncs.Everyone()), "all"},
		{keyOf(keyfuncs.Join(keyfuncs.Tenant("tenant"), keyfuncs.User("user"))), "tenant:42|user:alice"},
		{keyOf(keyfuncs.First(keyfuncs.User("user"), keyfuncs.ClientIP())), "user:alice"},
		{keyOf(keyfuncs.Join(keyfuncs.User("long"), keyfuncs.User("long"), keyfuncs.User("long"), keyfuncs.User("long"))), "join#uGMNSFxiEmDfk85lw3L7XA"},
		{keyOf(keyfuncs.User("user").WithSecret(secret)), "user#otU4mKult8yWcjW0BYYYXg"},
		{keyOf(keyfuncs.ClientIP().WithSecret(secret)), "ip#ZYJFTvWbXzDNpKM091bB7w"},
		{keyOf(keyfuncs.Custom("plan", func(keyfuncs.Request) string { return "free" })), "plan:free"},
	} {
		check.Equal(t, "key", tt.got, tt.want)
	}
}

// keyOf returns the key of a request of user alice, of tenant 42.
func keyOf(f keyfuncs.Func) string {
	key, _ := f.Key(keyfuncs.Values{"user": "alice", "ip": "192.0.2.7", "tenant": "42", "long": strings.Repeat("l", 64)})
	return key
}
