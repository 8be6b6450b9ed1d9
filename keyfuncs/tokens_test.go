package keyfuncs_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func quote(s string) string { return strconv.Quote(s) }

const (
	monitoring = "monitoring-7f3c9a1e5b2d"
	partner    = "partner-0123456789abcdef"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", 1024)
	c := keyfuncs.Tokens("x-bypass-token", monitoring, partner, longest)
	for _, tt := range []struct {
		name  string
		lines []string
		want  bool
	}{
		{"the first token", []string{monitoring}, true},
		{"another token", []string{partner}, true},
		{"the longest token", []string{longest}, true},
		{"no header", nil, false},
		{"an empty header", []string{""}, false},
		{"a wrong token", []string{"monitoring-7f3c9a1e5b2e"}, false},
		{"the beginning of a token", []string{monitoring[:16]}, false},
		{"a token and more", []string{monitoring + "0"}, false},
		{"another case", []string{strings.ToUpper(monitoring)}, false},
		{"two tokens", []string{monitoring + "," + partner}, false},
		{"two lines", []string{monitoring, partner}, false},
		{"a wrong line first", []string{"wrong", monitoring}, false},
		{"a blank before", []string{" " + monitoring}, false},
		{"a scheme before", []string{"Bearer " + monitoring}, false},
		{"the hash of a token", []string{hashed("", monitoring)}, false},
		{"a byte more than the longest", []string{longest + "x"}, false},
		{"a megabyte", []string{strings.Repeat("x", 1<<20)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantMatch(t, c, withHeader("X-Bypass-Token", tt.lines...), tt.want)
		})
	}
	wantMatch(t, c, withHeader("Authorization", "Bearer "+monitoring), false)
	wantMatch(t, c, withHeader("X_bypass_token", monitoring), false)

	bearer := keyfuncs.Tokens("Authorization", monitoring)
	wantMatch(t, bearer, withHeader("Authorization", "Bearer "+monitoring), true)
	wantMatch(t, bearer, withHeader("Authorization", "bearer "+monitoring), true)
	wantMatch(t, bearer, withHeader("Authorization", monitoring), false)
	wantMatch(t, bearer, withHeader("Authorization", "Basic "+monitoring), false)
	wantMatch(t, bearer, withHeader("Authorization", "Bearer "+monitoring, "Bearer "+monitoring), false)
}

func TestTrap40ShortAndEmptyTokensAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ token, want string }{
		{"", "token 2 of 3 is empty"},
		{"a", "token 2 of 3 has 1 bytes, want 16 or more"},
		{"fifteen-bytes..", "token 2 of 3 has 15 bytes, want 16 or more"},
		{strings.Repeat("x", 1025), "token 2 of 3 has 1025 bytes, want 1024 or fewer"},
		{monitoring + "\n", "token 2 of 3 contains whitespace, a control character or a byte outside ASCII"},
		{" " + monitoring, "token 2 of 3 contains whitespace, a control character or a byte outside ASCII"},
		{strings.Repeat(" ", 32), "token 2 of 3 contains whitespace, a control character or a byte outside ASCII"},
		{monitoring + "é", "token 2 of 3 contains whitespace, a control character or a byte outside ASCII"},
		{monitoring + "\xff", "token 2 of 3 contains whitespace, a control character or a byte outside ASCII"},
	} {
		c := keyfuncs.Tokens("X-Bypass-Token", monitoring, tt.token, partner)
		wantConditionErr(t, c, "weblimit: keyfuncs.Tokens: "+tt.want)
		// Not even for those that are fine.
		if c.Match(withHeader("X-Bypass-Token", monitoring)) || c.Match(withHeader("X-Bypass-Token", tt.token)) || c.Match(&request{}) {
			t.Errorf("an invalid condition holds")
		}
	}
	wantConditionErr(t, keyfuncs.Tokens("X-Bypass-Token"), "weblimit: keyfuncs.Tokens: no tokens")
	wantConditionErr(t, keyfuncs.Tokens("", monitoring), `weblimit: keyfuncs.Tokens: "" is not a header name`)
}

func TestTrap40TokensAreShownNowhere(t *testing.T) {
	t.Parallel()
	good := keyfuncs.Tokens("X-Bypass-Token", monitoring, partner)
	bad := keyfuncs.Tokens("X-Bypass-Token", monitoring, "short")
	for _, c := range []keyfuncs.Condition{good, bad, keyfuncs.Not(good), keyfuncs.Any(good, keyfuncs.Preflight())} {
		for _, shown := range []string{
			fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%s", c.Err()), fmt.Sprintf("%q", reflect.ValueOf(c)),
		} {
			for _, secret := range []string{monitoring, partner, "short"} {
				raw := []byte(secret)
				for _, spelling := range []string{secret, hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw), fmt.Sprintf("%d", raw)} {
					if strings.Contains(shown, spelling) {
						t.Errorf("%q is shown: %s", secret, shown)
					}
				}
			}
		}
	}
}

// The condition of a request with a wrong token is false, so that it is counted
// like any other: by the key of its address, which the token does not change.
func TestTrap40WrongTokensCountAgainstTheAddress(t *testing.T) {
	t.Parallel()
	c := keyfuncs.Tokens("X-Bypass-Token", monitoring)
	for i := range 100 {
		r := from("192.0.2.7", "X-Bypass-Token", fmt.Sprintf("guess-number-%010d", i))
		wantMatch(t, c, r, false)
		wantKey(t, keyfuncs.ClientIP(), r, "ip:192.0.2.7")
	}
}

// Trap 41: made-up keys are fresh buckets; beside them the address stays one.
func TestTrap41MadeUpAPIKeysDoNotChangeTheAddress(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range 100 {
		r := &request{peer: "192.0.2.7", headers: http.Header{"X-Api-Key": {fmt.Sprintf("made-up-%d", i)}}}
		key, _ := keyfuncs.APIKey().WithSecret([]byte("0123456789abcdef")).Key(r)
		seen[key] = true
		wantKey(t, keyfuncs.ClientIP(), r, "ip:192.0.2.7")
	}
	check.Equal(t, "buckets", len(seen), 100)
}

func FuzzTokens(f *testing.F) {
	f.Add(monitoring, partner, monitoring)
	f.Add(monitoring, partner, "")
	f.Add("0123456789abcdef", "0123456789abcdef0", "0123456789abcdef")
	f.Fuzz(func(t *testing.T, a, b, value string) {
		c := keyfuncs.Tokens("X-Bypass-Token", a, b)
		got := c.Match(withHeader("X-Bypass-Token", value))
		if want := c.Err() == nil && (value == a || value == b); got != want {
			t.Errorf("tokens %q and %q, value %q: %t, want %t (%v)", a, b, value, got, want, c.Err())
		}
		if c.Err() == nil && (len(a) < 16 || len(b) < 16) {
			t.Errorf("tokens %q and %q are not refused", a, b)
		}
	})
}
