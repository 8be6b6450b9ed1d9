package keyfuncs_test

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func returns(value string) func(keyfuncs.Request) string {
	return func(keyfuncs.Request) string { return value }
}

func TestCustom(t *testing.T) {
	t.Parallel()
	longest := "a" + strings.Repeat("9", 31)
	for _, tt := range []struct {
		name, kind, value, want string
	}{
		{"a clean value is readable", "tenant", "acme", "tenant:acme"},
		{"an odd value is hashed", "tenant", "acme\n", hashed("tenant", "acme\n")},
		{"the value of a secret is hashed", "session", "abc", hashed("session", "abc")},
		{"an empty value is missing", "tenant", "", ""},
		{"a kind has digits, dots and dashes", "a-1.b", "v", "a-1.b:v"},
		{"a kind has up to 32 bytes", longest, "v", longest + ":v"},
		{"a kind of this package with plain values is shared", "user", "alice", "user:alice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantKey(t, keyfuncs.Custom(tt.kind, returns(tt.value)), &request{}, tt.want)
		})
	}
}

func TestKindsOfCustomAreChecked(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		"", "Tenant", "1st", ".a", "-a", "a b", "a:b", "a#b", "a|b", "a{b}", "a_b", "é", "a\x00", "a" + strings.Repeat("9", 32),
	} {
		check.Fails(t, "Custom of "+kind, keyfuncs.Custom(kind, returns("v")).Err(), "is not a kind")
	}
	for _, kind := range []string{"all", "first", "invalid", "ip", "join", "key", "method", "route"} {
		wantErr(t, keyfuncs.Custom(kind, returns("v")), `weblimit: keyfuncs.Custom: kind "`+kind+`" is taken`)
	}
	wantErr(t, keyfuncs.Custom("tenant", nil), `weblimit: keyfuncs.Custom: kind "tenant" has no function`)
}
