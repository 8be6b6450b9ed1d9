package keyfuncs_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// hashed is the hashed form of a key, written down a second time.
func hashed(kind, value string) string {
	sum := sha256.Sum256([]byte(value))
	return kind + "#" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// ambiguous is the prefix of wantKey's expectation for an ambiguous key; the name of the
// repeated value follows.
const ambiguous = "ambiguous: "

// wantKey checks all ways to get a key; "" means that it is missing.
func wantKey(t *testing.T, f keyfuncs.Func, r keyfuncs.Request, want string) {
	t.Helper()
	if err := f.Err(); err != nil {
		t.Fatalf("Err() = %v", err)
	}
	presence := keyfuncs.Present
	repeated, ok := strings.CutPrefix(want, ambiguous)
	switch {
	case ok:
		want, presence = "", keyfuncs.Ambiguous
	case want == "":
		repeated, presence = "", keyfuncs.Missing
	default:
		repeated = ""
	}
	if got, p := f.Key(r); got != want || p != presence {
		t.Errorf("Key() = %.300q, %v; want %q, %v", got, p, want, presence)
	}
	const before = "before/"
	if dst, p := f.Append([]byte(before), r); string(dst) != before+want || p != presence {
		t.Errorf("Append(%q) = %.300q, %v; want %q, %v", before, dst, p, before+want, presence)
	}
	check.Equal(t, "Repeated", f.Repeated(r), repeated)
}

// wantErr checks that f is unusable, harmless and says why.
func wantErr(t *testing.T, f keyfuncs.Func, want string) {
	t.Helper()
	check.Equal(t, "Err", fmt.Sprint(f.Err()), want)
	check.Equal(t, "Kind", f.Kind(), "")
	if key, p := f.Key(&request{peer: "192.0.2.7"}); p != keyfuncs.Missing || key != "" {
		t.Errorf("Key() = %q, %v; want none", key, p)
	}
}

// wantStorable checks what every key promises.
func wantStorable(t *testing.T, key string) {
	t.Helper()
	if len(key) == 0 || len(key) > 256 {
		t.Errorf("key has %d bytes, want 1 to 256: %.300q", len(key), key)
	}
	for i := range len(key) {
		if c := key[i]; c < 0x20 || c > 0x7e || c == '{' || c == '}' {
			t.Errorf("key holds byte %q: %q", c, key)
		}
	}
}

func withHeader(name string, lines ...string) *request {
	return &request{headers: http.Header{name: lines}}
}

func withUser(id any) *request {
	return &request{values: map[any]any{"userID": id}}
}

// The kind of a combination names its parts. Other kinds are in everyFunc.
func TestKindsSayWhatAKeyIsMadeOf(t *testing.T) {
	t.Parallel()
	ip, user := keyfuncs.ClientIP(), keyfuncs.User("userID")
	for want, f := range map[string]keyfuncs.Func{
		"join(first(user,ip),method)":    keyfuncs.Join(keyfuncs.First(user, ip), keyfuncs.Method()),
		"first(join(user,route),apikey)": keyfuncs.First(keyfuncs.Join(user, keyfuncs.Route()), keyfuncs.APIKey()),
	} {
		check.Equal(t, "Kind", f.Kind(), want)
	}
}

func TestTheZeroFuncIsInvalid(t *testing.T) {
	t.Parallel()
	const want = "weblimit: keyfuncs: the zero Func makes no key, use a constructor such as keyfuncs.ClientIP"
	wantErr(t, keyfuncs.Func{}, want)
	wantErr(t, keyfuncs.Join(keyfuncs.ClientIP(), keyfuncs.Func{}), want)
	wantErr(t, keyfuncs.First(keyfuncs.Func{}), want)
}

func TestReadsTellsWhoseAddressAKeyIsMadeOf(t *testing.T) {
	t.Parallel()
	trusted := keyfuncs.TrustedProxies("10.0.0.0/8")
	country := keyfuncs.Lookup("country", func(netip.Addr) (string, bool) { return "", false }, keyfuncs.Framework())
	for _, tt := range []struct {
		name            string
		f               keyfuncs.Func
		peer, framework bool
	}{
		{"the peer", keyfuncs.ClientIP(), true, false},
		{"the peer by name", keyfuncs.ClientIP(keyfuncs.IPv6Prefix(56), keyfuncs.Peer()), true, false},
		{"a strategy", keyfuncs.ClientIP(trusted), false, false},
		{"the framework", keyfuncs.ClientIP(keyfuncs.Framework()), false, true},
		{"no address", keyfuncs.User("id"), false, false},
		{"a part of a combination", keyfuncs.Join(keyfuncs.Route(), keyfuncs.ClientIP()), true, false},
		{"one of several", keyfuncs.First(keyfuncs.User("id"), country, keyfuncs.ClientIP()), true, true},
		{"with a secret", keyfuncs.ClientIP().WithSecret(make([]byte, 16)), true, false},
		{"nothing", keyfuncs.Func{}, false, false},
	} {
		check.Equal(t, tt.name+": reads the peer, the framework's address", [2]bool{tt.f.Reads(keyfuncs.Peer()), tt.f.Reads(keyfuncs.Framework())}, [2]bool{tt.peer, tt.framework})
	}
}
