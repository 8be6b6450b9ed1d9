package keyfuncs_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestHeader(t *testing.T) {
	t.Parallel()
	const name, kind = "X-Tenant", "header.x-tenant"
	const twice = ambiguous + name + " header"
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a clean value is readable", []string{"acme"}, kind + ":acme"},
		{"64 bytes are readable", []string{strings.Repeat("a", 64)}, kind + ":" + strings.Repeat("a", 64)},
		{"65 bytes are hashed", []string{strings.Repeat("a", 65)}, hashed(kind, strings.Repeat("a", 65))},
		{"colons, hashes, percents and quotes are readable", []string{`a:b#c%d"e\`}, kind + `:a:b#c%d"e\`},
		{"inner spaces are readable", []string{"a  b"}, kind + ":a  b"},
		{"case counts", []string{"ACME"}, kind + ":ACME"},
		{"a bar is hashed", []string{"a|b"}, hashed(kind, "a|b")},
		{"an opening brace is hashed", []string{"{a"}, hashed(kind, "{a")},
		{"a closing brace is hashed", []string{"a}"}, hashed(kind, "a}")},
		{"a line break is hashed", []string{"a\r\nSet-Cookie: b"}, hashed(kind, "a\r\nSet-Cookie: b")},
		{"a zero byte is hashed", []string{"a\x00"}, hashed(kind, "a\x00")},
		{"delete is hashed", []string{"a\x7f"}, hashed(kind, "a\x7f")},
		{"non-ASCII is hashed", []string{"é"}, hashed(kind, "é")},
		{"invalid UTF-8 is hashed as it is", []string{"\xff\xfe"}, hashed(kind, "\xff\xfe")},
		{"no line is missing", nil, ""},
		{"an empty value is missing", []string{""}, ""},
		{"two lines are ambiguous", []string{"a", "b"}, twice},
		{"two equal lines are ambiguous", []string{"a", "a"}, twice},
		{"an empty line before another is ambiguous", []string{"", "a"}, twice},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantKey(t, keyfuncs.Header(name), withHeader(name, tt.lines...), tt.want)
		})
	}
}

func TestHeaderNamesAreCaseInsensitive(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"X-Tenant", "x-tenant", "X-TENANT"} {
		wantKey(t, keyfuncs.Header(name), withHeader("X-Tenant", "42"), "header.x-tenant:42")
	}
	// Trap 35: X_Tenant is another header.
	wantKey(t, keyfuncs.Header("X_Tenant"), withHeader("X-Tenant", "42"), "")
}

func TestHeadersThatNameASecretAreHashed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "X-Session-Id",
		"X-Client-Secret", "X-Password", "X-Credential", "Cf-Access-Jwt-Assertion", "X-Hub-Signature",
	} {
		kind := "header." + strings.ToLower(name)
		wantKey(t, keyfuncs.Header(name), withHeader(name, "s3cret"), hashed(kind, "s3cret"))
	}
}

func TestCookie(t *testing.T) {
	t.Parallel()
	f := keyfuncs.Cookie("sid")
	wantKey(t, f, &request{cookies: map[string][]string{"sid": {"abc"}}}, hashed("cookie.sid", "abc"))
	wantKey(t, f, &request{cookies: map[string][]string{"sid": {""}}}, "")
	wantKey(t, f, &request{cookies: map[string][]string{"SID": {"abc"}}}, "")
	wantKey(t, f, &request{}, "")
	with := func(values ...string) *request { return &request{cookies: map[string][]string{"sid": values}} }
	wantKey(t, f, with("abc", "abc", "abc"), hashed("cookie.sid", "abc"))
	wantKey(t, f, with("abc", " abc\t"), hashed("cookie.sid", "abc"))
	for _, several := range [][]string{{"abc", "def"}, {"abc", "abc", "def"}, {"abc", ""}, {"", "abc"}, slices.Repeat([]string{"abc"}, 9)} {
		wantKey(t, f, with(several...), ambiguous+"sid cookie")
	}
	wantKey(t, keyfuncs.Cookie("SID"), &request{cookies: map[string][]string{"SID": {"abc"}}}, hashed("cookie.SID", "abc"))
}

func TestNamesOfHeadersAndCookiesAreChecked(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 65)
	for _, tt := range []struct {
		name string
		f    keyfuncs.Func
		want string
	}{
		{"a header with a space", keyfuncs.Header("bad name"), `weblimit: keyfuncs.Header: "bad name" is not a header name`},
		{"a header without a name", keyfuncs.Header(""), `weblimit: keyfuncs.Header: "" is not a header name`},
		{"a header with a colon", keyfuncs.Header("Host:"), `weblimit: keyfuncs.Header: "Host:" is not a header name`},
		{"a header with a brace", keyfuncs.Header("X-{a}"), `weblimit: keyfuncs.Header: "X-{a}" is not a header name`},
		{"a header with a line break", keyfuncs.Header("X\r\nY"), `weblimit: keyfuncs.Header: "X\r\nY" is not a header name`},
		{"a header outside ASCII", keyfuncs.Header("X-É"), `weblimit: keyfuncs.Header: "X-É" is not a header name`},
		{"a header with a bar", keyfuncs.Header("a|b"), `weblimit: keyfuncs.Header: "a|b" contains # or |, which separate the parts of a key`},
		{"a header with a hash", keyfuncs.Header("a#b"), `weblimit: keyfuncs.Header: "a#b" contains # or |, which separate the parts of a key`},
		{"a long header", keyfuncs.Header(long), `weblimit: keyfuncs.Header: "` + long[:64] + `…" is longer than 64 bytes`},
		{"a cookie with a semicolon", keyfuncs.Cookie("a;b"), `weblimit: keyfuncs.Cookie: "a;b" is not a cookie name`},
		{"a cookie without a name", keyfuncs.Cookie(""), `weblimit: keyfuncs.Cookie: "" is not a cookie name`},
		{"an API key in a bad header", keyfuncs.APIKey("X-Ok", "bad name"), `weblimit: keyfuncs.APIKey: "bad name" is not a header name`},
		{"an API key nowhere", keyfuncs.APIKey(""), `weblimit: keyfuncs.APIKey: "" is not a header name`},
		{"an API key in no parameter", keyfuncs.APIKey("?"), `weblimit: keyfuncs.APIKey: "?" names no query parameter`},
		{"a bad header in a Join", keyfuncs.Join(keyfuncs.ClientIP(), keyfuncs.Header("")), `weblimit: keyfuncs.Header: "" is not a header name`},
		{"a bad header in a First", keyfuncs.First(keyfuncs.Header(""), keyfuncs.ClientIP()), `weblimit: keyfuncs.Header: "" is not a header name`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantErr(t, tt.f, tt.want)
		})
	}
	if err := keyfuncs.Header("!$%&'*+-.^_`~09azAZ").Err(); err != nil {
		t.Errorf("every other token byte is fine, got %v", err)
	}
}

// Trap 51. Blanks around a value are no part of it: neither those of HTTP nor those
// that applications trim with strings.TrimSpace.
func TestTrap51BlanksAroundAValueMakeNoNewKey(t *testing.T) {
	t.Parallel()
	const value = "s3cret"
	query := func(v string) *request { return &request{query: url.Values{"key": {v}}} }
	for _, blank := range []string{" ", "\t", "\v", "\f", "\r\n", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u202f", "\u205f", "\u3000", " \u00a0\t"} {
		for _, spelling := range []string{blank + value, value + blank, blank + value + blank} {
			wantKey(t, keyfuncs.Header("X-Tenant"), withHeader("X-Tenant", spelling), "header.x-tenant:"+value)
			wantKey(t, keyfuncs.APIKey(), withHeader("X-Api-Key", spelling), hashed("apikey", value))
			wantKey(t, keyfuncs.APIKey(), withHeader("Authorization", "Bearer "+spelling), hashed("apikey", value))
			wantKey(t, keyfuncs.APIKey(), withHeader("Authorization", blank+"Bearer"+blank+spelling), hashed("apikey", value))
			wantKey(t, keyfuncs.APIKey("?key"), query(spelling), hashed("apikey", value))
			wantKey(t, keyfuncs.Cookie("sid"), &request{cookies: map[string][]string{"sid": {spelling}}}, hashed("cookie.sid", value))
			for _, kind := range []string{"header.x-tenant", "apikey", "cookie.sid"} {
				check.Equal(t, fmt.Sprintf("Encode(%q, %q)", kind, spelling), keyfuncs.Encode(kind, spelling), keyfuncs.Encode(kind, value))
			}
		}
		wantKey(t, keyfuncs.Header("X-Tenant"), withHeader("X-Tenant", blank), "")
		wantKey(t, keyfuncs.APIKey(), withHeader("Authorization", "Bearer "+blank), "")
		wantKey(t, keyfuncs.APIKey(), withHeader("Authorization", "Bearer a"+blank+"b"), ambiguous+"Authorization header")
	}
	// What TrimSpace leaves is part of a value, and so are inner blanks.
	for _, other := range []string{"s3 cret", "\u200bs3cret", "\ufeffs3cret", "\xa0s3cret", "s3cret\x00"} {
		wantKey(t, keyfuncs.APIKey("X-Key"), withHeader("X-Key", other), hashed("apikey", other))
	}
}

// Headers that carry addresses give their writer a fresh bucket per value.
func TestHeadersThatCarryAddressesAreNoKeys(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]string{
		"X-Forwarded-For":          "TrustedProxies(proxies...)",
		"x-forwarded-for":          "TrustedProxies(proxies...)",
		"X_Forwarded_For":          "TrustedProxies(proxies...)",
		"X-Original-Forwarded-For": "TrustedProxies(proxies...)",
		"Forwarded":                "Forwarded(proxies...)",
		"X-Real-IP":                "XRealIP(proxies...)",
		"CF-Connecting-IP":         "Cloudflare()",
		"CF-Connecting-IPv6":       "Cloudflare()",
		"True-Client-IP":           `SingleHeader("True-Client-IP", proxies...)`,
		"X-Envoy-External-Address": `SingleHeader("X-Envoy-External-Address", proxies...)`,
		"DO-Connecting-IP":         `SingleHeader("DO-Connecting-IP", proxies...)`,
	} {
		const reason = " carries an address, which clients can make up; use keyfuncs.ClientIP(keyfuncs."
		const custom = ", or keyfuncs.Custom if the text itself is meant"
		wantErr(t, keyfuncs.Header(name), "weblimit: keyfuncs.Header: "+name+reason+strategy+")"+custom)
		wantErr(t, keyfuncs.APIKey("X-Api-Key", name), "weblimit: keyfuncs.APIKey: "+name+reason+strategy+")")
		wantErr(t, keyfuncs.First(keyfuncs.Header(name), keyfuncs.ClientIP()), "weblimit: keyfuncs.Header: "+name+reason+strategy+")"+custom)
		wantConditionErr(t, keyfuncs.Tokens(name, "0123456789abcdef"), "weblimit: keyfuncs.Tokens: "+name+reason+strategy+")")
	}
}
