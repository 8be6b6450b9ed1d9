package keyfuncs_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// mac is a hashed part under a secret, written down a second time.
func mac(secret, kind, message string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(message))
	return kind + "#" + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

func TestWithSecretIsHMAC(t *testing.T) {
	t.Parallel()
	r := &request{peer: "192.0.2.7", route: "/users/{id}", method: "GET", values: map[any]any{"userID": "a:b#c"}, headers: http.Header{"X-Api-Key": {"1234"}}}
	for _, secret := range []string{
		"0123456789abcdef", strings.Repeat("s", 63), strings.Repeat("s", 64), strings.Repeat("s", 65), strings.Repeat("\x00", 1000),
	} {
		for _, tt := range []struct {
			f             keyfuncs.Func
			kind, message string
		}{
			{keyfuncs.APIKey(), "apikey", hashed("apikey", "1234")},
			{keyfuncs.ClientIP(), "ip", "ip:192.0.2.7"},
			{keyfuncs.User("userID"), "user", "user:a:b#c"},
			{keyfuncs.Route(), "route", hashed("route", "/users/{id}")},
			{keyfuncs.Header("X-Api-Key"), "header.x-api-key", hashed("header.x-api-key", "1234")},
		} {
			f := tt.f.WithSecret([]byte(secret))
			wantKey(t, f, r, mac(secret, tt.kind, tt.message))
			check.Equal(t, "Kind", f.Kind(), "secret("+tt.f.Kind()+")")
			check.Equal(t, "Kind, twice under it", f.WithSecret([]byte(secret)).Kind(), f.Kind())
			what, challenge := f.Lacks(&request{})
			plain, asked := tt.f.Lacks(&request{})
			check.All(t, "what a request lacks", []any{what, challenge}, plain, asked)
		}
	}
}

func TestWithSecretOfCombinations(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef"
	with := func(f keyfuncs.Func) keyfuncs.Func { return f.WithSecret([]byte(secret)) }
	ip, user, all, tenant := keyfuncs.ClientIP(), keyfuncs.User("userID"), keyfuncs.Everyone(), keyfuncs.Header("X-Tenant")
	r := withUser("alice")
	r.peer = "192.0.2.7"

	want := mac(secret, "ip", "ip:192.0.2.7") + "|" + mac(secret, "user", "user:alice") + "|all"
	wantKey(t, with(keyfuncs.Join(ip, user, all)), r, want)
	wantKey(t, keyfuncs.Join(with(ip), with(user), with(all)), r, want)
	wantKey(t, with(keyfuncs.First(tenant, user)), r, mac(secret, "user", "user:alice"))
	wantKey(t, with(keyfuncs.Join(ip, tenant)), r, "")
	wantKey(t, with(tenant), r, "")

	// Parts grow, so a Join of many short ones is shortened.
	many := make([]keyfuncs.Func, 40)
	for i := range many {
		many[i] = keyfuncs.Custom("a", returns("b"))
	}
	whole := strings.TrimSuffix(strings.Repeat("a:b|", 40), "|")
	wantKey(t, with(keyfuncs.Join(many...)), r, mac(secret, "join", whole))
	// One that was shortened already is a part like any other.
	many = slices.Repeat(many, 2)
	whole += "|" + whole
	wantKey(t, with(keyfuncs.Join(many...)), r, mac(secret, "join", hashed("join", whole)))
}

func TestWithSecretIsChecked(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	wantErr(t, keyfuncs.APIKey().WithSecret(nil), "weblimit: keyfuncs.Func.WithSecret: the secret has 0 bytes, want 16 or more")
	wantErr(t, keyfuncs.APIKey().WithSecret(secret[:15]), "weblimit: keyfuncs.Func.WithSecret: the secret has 15 bytes, want 16 or more")
	wantErr(t, keyfuncs.APIKey("").WithSecret(secret), `weblimit: keyfuncs.APIKey: "" is not a header name`)
	wantErr(t, keyfuncs.Func{}.WithSecret(secret), keyfuncs.Func{}.Err().Error())
}

func TestWithSecretCopiesAndNeverShowsTheSecret(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	f := keyfuncs.APIKey().WithSecret(secret)
	clear(secret)
	wantKey(t, f, withHeader("X-Api-Key", "1234"), mac("0123456789abcdef", "apikey", hashed("apikey", "1234")))
	for _, shown := range []string{fmt.Sprintf("%v", f), fmt.Sprintf("%+v", f), fmt.Sprintf("%#v", f)} {
		if strings.Contains(shown, "0123456789") {
			t.Errorf("the secret is shown: %s", shown)
		}
	}
}
