package keyfuncs_test

import (
	"net/http"
	"strings"
	"testing"
	"unsafe"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// What everyFunc does not have: other values, and other arguments of the constructors.
func TestEncodeIsTheKeyOfTheFunc(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		f    keyfuncs.Func
		r    *request
		text string
	}{
		{"a secret header", keyfuncs.Header("Authorization"), withHeader("Authorization", "Bearer a"), "Bearer a"},
		{"a header named by most token bytes", keyfuncs.Header("!$%&'*+.^_`~"), withHeader("!$%&'*+.^_`~", "42"), "42"},
		{"a custom secret", keyfuncs.Custom("token", returns("abc")), &request{}, "abc"},
		{"no route", keyfuncs.Route(), &request{}, "unmatched"},
		{"a method", keyfuncs.Method(), &request{method: "HEAD"}, "HEAD"},
		{"an unknown method", keyfuncs.Method(), &request{method: "BREW"}, "BREW"},
		{"an IPv4 address", keyfuncs.ClientIP(), &request{peer: "192.0.2.7"}, "192.0.2.7"},
		{"a mapped address", keyfuncs.ClientIP(), &request{peer: "192.0.2.7"}, "::ffff:192.0.2.7"},
		{"an IPv6 address", keyfuncs.ClientIP(), &request{peer: "2001:db8::1"}, "2001:DB8::2%eth0"},
		{"a canonical /64", keyfuncs.ClientIP(), &request{peer: "2001:db8::1"}, "2001:db8::/64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantKey(t, tt.f, tt.r, keyfuncs.Encode(tt.f.Kind(), tt.text))
		})
	}
	check.Equal(t, "the key of an empty value", keyfuncs.Encode("user", ""), "")
}

func TestEncodeOfAKindThatIsNoneIsABucketOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, part := range [][2]string{
		{"", "a"},
		{"a:b", "c"},
		{"a", "b:c"},
		{"a:b:c", "d"},
		{"a:b", "c:d"},
		{"a|b", "c"},
		{"a#b", "c"},
		{"user:alice|ip", "1.2.3.4"},
		{"A", "b"},
		{"a", "b"},
		{"all", "x"},
		{"join", "x"},
		{"first", "x"},
		{"key", "x"},
		{"invalid", "x"},
		{"header.X-Tenant", "x"},
		{"header.x-tenant", "x"},
		{"header.", "x"},
		{"cookie.", "x"},
		{"cookie.a b", "x"},
		{"\xff", "a"},
		{"\ufffd", "a"},
		{"a\"", "b"},
		{"a", "\"b"},
		{"{", "}"},
		{strings.Repeat("a", 1<<20), "b"},
	} {
		key := keyfuncs.Encode(part[0], part[1])
		wantStorable(t, key)
		if other, ok := seen[key]; ok {
			t.Errorf("%.50q and %s share %q", part, other, key)
		}
		seen[key] = part[0] + "," + part[1]
	}
	for _, kind := range []string{"a:b", "header.X-Tenant", "cookie.a b", "all", "join"} {
		if got := keyfuncs.Encode(kind, "c"); !strings.HasPrefix(got, "invalid#") {
			t.Errorf("Encode(%q) = %q", kind, got)
		}
	}
}

func TestAppendKey(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("k", 256)
	for _, tt := range []struct{ name, key, want string }{
		{"a clean key is appended as it is", "tenant:42", "tenant:42"},
		{"spaces and bars too", "tenant:a b|user:c", "tenant:a b|user:c"},
		{"256 bytes too", longest, longest},
		{"257 bytes are hashed", longest + "k", hashed("key", longest+"k")},
		{"braces are hashed", "tenant:{42}", hashed("key", "tenant:{42}")},
		{"control characters are hashed", "a\r\nb", hashed("key", "a\r\nb")},
		{"non-ASCII is hashed", "tenant:é", hashed("key", "tenant:é")},
		{"invalid UTF-8 is hashed", "\xff", hashed("key", "\xff")},
		{"an empty key is hashed", "", hashed("key", "")},
		{"the hash of another key is not that key", hashed("key", "é"), hashed("key", hashed("key", "é"))},
		{"a key of a Func is appended as it is", keyfuncs.Encode("user", "a|b"), hashed("user", "a|b")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check.Equal(t, "AppendKey", string(keyfuncs.AppendKey([]byte("before/"), tt.key)), "before/"+tt.want)
		})
	}
}

// Trap 42. All keys of the table differ from one another.
func TestDifferentInputsHaveDifferentKeys(t *testing.T) {
	t.Parallel()
	user := func(id any) string { k, _ := keyfuncs.User("userID").Key(withUser(id)); return k }
	header := func(v string) string { k, _ := keyfuncs.Header("X-A").Key(withHeader("X-A", v)); return k }
	both := func(a, b string) string {
		f := keyfuncs.Join(keyfuncs.Header("X-A"), keyfuncs.Header("X-B"))
		k, _ := f.Key(&request{headers: http.Header{"X-A": {a}, "X-B": {b}}})
		return k
	}
	ip := func(peer string) string { k, _ := keyfuncs.ClientIP().Key(&request{peer: peer}); return k }
	apiKey := func(v string) string { k, _ := keyfuncs.APIKey().Key(withHeader("X-Api-Key", v)); return k }
	join := func(f ...keyfuncs.Func) string {
		r := withUser("alice")
		r.peer, r.method, r.route = "1.2.3.4", "GET", "/"
		k, _ := keyfuncs.Join(f...).Key(r)
		return k
	}

	seen := map[string]string{}
	for name, key := range map[string]string{
		"IP 1.2.3.4":                      ip("1.2.3.4"),
		"user 1.2.3.4":                    user("1.2.3.4"),
		"header 1.2.3.4":                  header("1.2.3.4"),
		"API key 1.2.3.4":                 apiKey("1.2.3.4"),
		"user ip:1.2.3.4":                 user("ip:1.2.3.4"),
		"user 2001:db8::/64":              user("2001:db8::/64"),
		"IP of 2001:db8::/64":             ip("2001:db8::1"),
		"a:b and c":                       both("a:b", "c"),
		"a and b:c":                       both("a", "b:c"),
		"a|b and c":                       both("a|b", "c"),
		"a and b|c":                       both("a", "b|c"),
		"a and b":                         both("a", "b"),
		"b and a":                         both("b", "a"),
		"ab and c":                        both("ab", "c"),
		"a and bc":                        both("a", "bc"),
		"the text of a joined key":        header("a|header.x-b:b"),
		"a value that closes its part":    both("a|header.x-b:b", "c"),
		"a value with a hash":             header("a#b"),
		"a value with a percent":          header("a%7Cb"),
		"the value it would decode to":    header("a|b"),
		"a value that is the hash":        header(hashed("header.x-a", "a|b")),
		"a value that is only the base64": header(strings.TrimPrefix(hashed("header.x-a", "a|b"), "header.x-a")),
		"API key s3cret":                  apiKey("s3cret"),
		"the hash of API key s3cret":      apiKey(hashed("apikey", "s3cret")),
		"user with that hash as name":     user(hashed("apikey", "s3cret")),
		"app's key with API key as text":  string(keyfuncs.AppendKey(nil, "apikey:s3cret")),
		"app's odd key":                   string(keyfuncs.AppendKey(nil, "é")),
		"app's key spelled as that hash":  string(keyfuncs.AppendKey(nil, hashed("key", "é"))),
		"user é":                          user("é"),
		"user é in Latin-1":               user("\xe9"),
		"user with the replacement rune":  user("\ufffd"),
		"user with é decomposed":          user("e\u0301"),
		"user a":                          user("a"),
		"user a and a space":              user("a "),
		"user a and a zero byte":          user("a\x00"),
		"user A":                          user("A"),
		"user all":                        user("all"),
		"everyone":                        join(keyfuncs.Everyone()),
		"everyone twice":                  join(keyfuncs.Everyone(), keyfuncs.Everyone()),
		"user, then IP":                   join(keyfuncs.User("userID"), keyfuncs.ClientIP()),
		"IP, then user":                   join(keyfuncs.ClientIP(), keyfuncs.User("userID")),
		"a custom key of another kind":    join(keyfuncs.Custom("a", returns("b:c"))),
		"a custom key of a dotted kind":   join(keyfuncs.Custom("a.b", returns("c"))),
		"64 bytes":                        user(strings.Repeat("a", 64)),
		"65 bytes":                        user(strings.Repeat("a", 65)),
		"66 bytes":                        user(strings.Repeat("a", 66)),
		"a long value of another kind":    header(strings.Repeat("a", 65)),
		"a braced value of a cluster":     header("{user}"),
		"the same without braces":         header("user"),
	} {
		wantStorable(t, key)
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q share the key %q", name, other, key)
		}
		seen[key] = name
	}
}

// Trap 33.
func TestAMegabyteMakesABoundedKey(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 1<<20)
	r := carrying(huge)
	r.headers[strings.ToUpper("h")+strings.Repeat("h", 63)] = []string{strings.Repeat("v", 64)}
	parts := []keyfuncs.Func{keyfuncs.Header(strings.Repeat("h", 64))}
	for _, e := range everyFunc {
		if e.text != "-" {
			parts = append(parts, e.make(huge))
		}
	}
	for _, f := range []keyfuncs.Func{parts[0], keyfuncs.Join(parts...), keyfuncs.First(parts[1:]...)} {
		key, p := f.Key(r)
		if p != keyfuncs.Present {
			t.Errorf("%s has no key", f.Kind())
			continue
		}
		wantStorable(t, key)
	}
	wantStorable(t, string(keyfuncs.AppendKey(nil, huge)))
	wantStorable(t, keyfuncs.Encode("user", huge))
}

// Traps 20 and 42: a client chooses neither a Cluster slot nor a header line.
func TestNoInputReachesAKeyUnescaped(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"{}", "{slot}", "}{", "a{", "a}", "a\r\nX: y", "\x00", "\x1b[31m", "\x7f", "\xc3\x28", "日本"} {
		for _, kind := range []string{"user", "header.x-a", "route", "ip", "tenant", value} {
			wantStorable(t, keyfuncs.Encode(kind, value))
		}
		for _, f := range []keyfuncs.Func{keyfuncs.User("userID"), keyfuncs.Join(keyfuncs.Everyone(), keyfuncs.User("userID"))} {
			key, _ := f.Key(withUser(value))
			wantStorable(t, key)
		}
	}
}

// Trap 32: Fiber reuses the memory behind its strings.
func TestKeysShareNoMemoryWithTheRequest(t *testing.T) {
	t.Parallel()
	buffer := []byte("alice")
	r := withUser(unsafe.String(&buffer[0], len(buffer)))
	f := keyfuncs.Join(keyfuncs.User("userID"), keyfuncs.Everyone())
	key, _ := f.Key(r)
	appended, _ := f.Append(nil, r)
	copy(buffer, "mallo")
	check.Equal(t, "keys after the request has changed", [2]string{key, string(appended)}, [2]string{"user:alice|all", "user:alice|all"})
}

// The key that is made of values is that of a request, however long.
func TestEncodeJoinIsTheKeyOfJoin(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60)
	for name, tt := range map[string]struct {
		key  keyfuncs.Func
		want string
	}{
		"two":    {keyfuncs.Join(keyfuncs.User("user"), keyfuncs.Route()), keyfuncs.EncodeJoin(keyfuncs.Encode("user", "alice"), keyfuncs.Encode("route", "/orders/:id"))},
		"one":    {keyfuncs.Join(keyfuncs.User("user")), keyfuncs.EncodeJoin(keyfuncs.Encode("user", "alice"))},
		"hashed": {keyfuncs.Join(keyfuncs.User("odd"), keyfuncs.APIKey()), keyfuncs.EncodeJoin(keyfuncs.Encode("user", "a|b"), keyfuncs.Encode("apikey", "secret"))},
		"long": {
			keyfuncs.Join(keyfuncs.User("long"), keyfuncs.Tenant("long"), keyfuncs.Param("long"), keyfuncs.Query("long")),
			keyfuncs.EncodeJoin(keyfuncs.Encode("user", long), keyfuncs.Encode("tenant", long), keyfuncs.Encode("param.long", long), keyfuncs.Encode("query.long", long)),
		},
		"nested": {
			keyfuncs.Join(keyfuncs.Join(keyfuncs.User("user"), keyfuncs.Route()), keyfuncs.Tenant("long")),
			keyfuncs.EncodeJoin(keyfuncs.EncodeJoin(keyfuncs.Encode("user", "alice"), keyfuncs.Encode("route", "/orders/:id")), keyfuncs.Encode("tenant", long)),
		},
		"missing": {keyfuncs.Join(keyfuncs.User("user"), keyfuncs.Tenant("none")), keyfuncs.EncodeJoin(keyfuncs.Encode("user", "alice"), keyfuncs.Encode("tenant", ""))},
		"of none": {keyfuncs.User("none"), keyfuncs.EncodeJoin()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantKey(t, tt.key, keyfuncs.Values{"user": "alice", "odd": "a|b", "long": long, "route": "/orders/:id", "X-API-Key": "secret"}, tt.want)
		})
	}
}
