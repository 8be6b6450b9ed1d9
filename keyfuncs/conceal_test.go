package keyfuncs_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// An operator knows what a client is without the secret, and finds the client's key.
func TestConcealFindsTheKeyOfARequest(t *testing.T) {
	t.Parallel()
	a, b := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	ip, user, all, key := keyfuncs.ClientIP(keyfuncs.IPv6Prefix(56)), keyfuncs.User("userID"), keyfuncs.Everyone(), keyfuncs.APIKey()
	r := &request{peer: "2001:db8::1", values: map[any]any{"userID": "alice"}, headers: http.Header{"X-Api-Key": {"1234"}}}
	for _, tt := range []struct {
		f, plain keyfuncs.Func
		kind     string
	}{
		{ip, ip, "ip/56"},
		{keyfuncs.ClientIP(keyfuncs.IPv6Prefix(64)), keyfuncs.ClientIP(), "ip"},
		{ip.WithSecret(a), ip, "secret(ip/56)"},
		{user.WithSecret(a).WithSecret(b), user, "secret(user)"},
		{key.WithSecret(a), key, "secret(apikey)"},
		{all.WithSecret(a), all, "secret(all)"},
		{keyfuncs.Join(ip, user, all).WithSecret(a), keyfuncs.Join(ip, user, all), "secret(join(ip/56,user,all))"},
		{keyfuncs.Join(ip.WithSecret(a), user.WithSecret(b), key), keyfuncs.Join(ip, user, key), "join(secret(ip/56),secret(user),apikey)"},
		{keyfuncs.First(user.WithSecret(a), ip), user, "first(secret(user),ip/56)"},
		{keyfuncs.Join(keyfuncs.First(key, user).WithSecret(a), ip).WithSecret(b), keyfuncs.Join(key, ip), "secret(join(secret(first(apikey,user)),ip/56))"},
	} {
		plain, _ := tt.plain.Key(r)
		want, _ := tt.f.Key(r)
		got, ok := tt.f.Conceal(plain)
		check.All(t, tt.kind, []any{got, ok, tt.f.Kind()}, want, true, tt.kind)
	}
}

func TestConcealSaysWhatItCanNotKnow(t *testing.T) {
	t.Parallel()
	a, b := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	user, ip := keyfuncs.User("userID"), keyfuncs.ClientIP()
	for name, tt := range map[string]struct {
		f   keyfuncs.Func
		key string
	}{
		"a part of another kind":           {user.WithSecret(a), "ip:192.0.2.7"},
		"one kind under two secrets":       {keyfuncs.First(user.WithSecret(a), user.WithSecret(b)), "user:alice"},
		"one kind, once under a secret":    {keyfuncs.Join(user.WithSecret(a), user), "user:alice|user:alice"},
		"the same, under one more secret":  {keyfuncs.Join(user.WithSecret(a), user).WithSecret(b), "user:alice|user:alice"},
		"what was shortened":               {keyfuncs.Join(user, ip).WithSecret(a), "join#0123456789012345678901"},
		"a key that is too long":           {user.WithSecret(a), "user:" + strings.Repeat("x", 300)},
		"a key that becomes too long":      {keyfuncs.Join(user).WithSecret(a), strings.Repeat("user:a|", 20) + "user:a"},
		"a Func that is none":              {keyfuncs.Func{}, "user:alice"},
		"nothing":                          {user.WithSecret(a), ""},
		"a name that would be another's":   {user.WithSecret(a), "userx:alice"},
		"a kind and no value, from nobody": {ip.WithSecret(a), "all"},
	} {
		if got, ok := tt.f.Conceal(tt.key); ok {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
