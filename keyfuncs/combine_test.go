package keyfuncs_test

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/keyfuncs"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	ip, user, route, method := keyfuncs.ClientIP(), keyfuncs.User("userID"), keyfuncs.Route(), keyfuncs.Method()
	r := withUser("alice")
	r.peer, r.route, r.method = "192.0.2.7", "/orders", "POST"
	const all = "ip:192.0.2.7|user:alice|route:/orders|method:POST"

	wantKey(t, keyfuncs.Join(ip), r, "ip:192.0.2.7")
	wantKey(t, keyfuncs.Join(ip, user, route, method), r, all)
	wantKey(t, keyfuncs.Join(keyfuncs.Join(ip, user), keyfuncs.Join(route, method)), r, all)
	wantKey(t, keyfuncs.Join(ip, keyfuncs.Join(user, keyfuncs.Join(route, method))), r, all)
	wantKey(t, keyfuncs.Join(user, ip), r, "user:alice|ip:192.0.2.7")
	wantKey(t, keyfuncs.Join(keyfuncs.Everyone(), method), r, "all|method:POST")

	for name, missing := range map[string]keyfuncs.Func{
		"the first": keyfuncs.Join(keyfuncs.Header("X-A"), ip),
		"the last":  keyfuncs.Join(ip, user, keyfuncs.Header("X-A")),
		"a nested":  keyfuncs.Join(ip, keyfuncs.Join(keyfuncs.Header("X-A"), user), route),
	} {
		t.Run("without "+name+" key there is none", func(t *testing.T) {
			t.Parallel()
			wantKey(t, missing, r, "")
		})
	}
}

func TestJoinOfMoreThan256BytesIsHashed(t *testing.T) {
	t.Parallel()
	custom := func(n int) keyfuncs.Func {
		return keyfuncs.Custom("x", func(keyfuncs.Request) string { return strings.Repeat("v", n) })
	}
	// Each part is "x:", its value, and a bar but for the last.
	whole := func(n int) string {
		v := "x:" + strings.Repeat("v", 61) + "|"
		return v + v + v + "x:" + strings.Repeat("v", n)
	}
	v := custom(61)
	wantKey(t, keyfuncs.Join(v, v, v, custom(62)), &request{}, whole(62))
	wantKey(t, keyfuncs.Join(v, v, v, custom(63)), &request{}, hashed("join", whole(63)))

	// A shortened Join within a Join is a part like any other.
	inner := keyfuncs.Join(v, v, v, custom(63))
	wantKey(t, keyfuncs.Join(inner, keyfuncs.Everyone()), &request{}, hashed("join", whole(63))+"|all")
}

func TestFirst(t *testing.T) {
	t.Parallel()
	ip, user, key := keyfuncs.ClientIP(), keyfuncs.User("userID"), keyfuncs.APIKey()
	first := keyfuncs.First(user, key, ip)

	signedIn := withUser("alice")
	signedIn.peer = "192.0.2.7"
	wantKey(t, first, signedIn, "user:alice")

	client := withHeader("X-Api-Key", "s3cret")
	client.peer = "192.0.2.7"
	wantKey(t, first, client, hashed("apikey", "s3cret"))

	wantKey(t, first, &request{peer: "192.0.2.7"}, "ip:192.0.2.7")
	wantKey(t, first, &request{}, "")

	// A Join that lacks its second part leaves nothing of its first behind.
	nested := keyfuncs.First(keyfuncs.Join(ip, user), keyfuncs.Join(ip, keyfuncs.Method()))
	wantKey(t, nested, &request{peer: "192.0.2.7", method: "PUT"}, "ip:192.0.2.7|method:PUT")
	wantKey(t, keyfuncs.Join(first, keyfuncs.First(key, keyfuncs.Everyone())), signedIn, "user:alice|all")
}

// Trap 50. A client that sends a header twice chooses no other bucket by it.
func TestTrap50ACombinationOfAnAmbiguousKeyIsAmbiguous(t *testing.T) {
	t.Parallel()
	ip, user, key := keyfuncs.ClientIP(), keyfuncs.User("userID"), keyfuncs.APIKey("X-API-Key")
	r := withHeader("X-Api-Key", "a", "b")
	r.peer = "192.0.2.7"
	const want = ambiguous + "X-API-Key header"
	for name, f := range map[string]keyfuncs.Func{
		"First before another":     keyfuncs.First(user, key, ip),
		"First of a Join":          keyfuncs.First(keyfuncs.Join(key, ip), ip),
		"Join at its end":          keyfuncs.Join(ip, key),
		"Join behind a missing":    keyfuncs.Join(user, key),
		"Join before a missing":    keyfuncs.Join(key, user),
		"Join of a First":          keyfuncs.Join(ip, keyfuncs.First(user, key)),
		"First of nested Firsts":   keyfuncs.First(keyfuncs.First(user), keyfuncs.First(key, ip)),
		"First under a secret":     keyfuncs.First(user, key, ip).WithSecret(make([]byte, 16)),
		"the key under a secret":   key.WithSecret(make([]byte, 16)),
		"Join of keys that repeat": keyfuncs.Join(key, key),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantKey(t, f, r, want)
		})
	}
	wantKey(t, keyfuncs.First(ip, key), r, "ip:192.0.2.7")
}

func TestCombinationsOfNothingAreErrors(t *testing.T) {
	t.Parallel()
	wantErr(t, keyfuncs.Join(), "weblimit: keyfuncs.Join: no keys")
	wantErr(t, keyfuncs.First(), "weblimit: keyfuncs.First: no keys")
	wantErr(t, keyfuncs.Join(keyfuncs.First()), "weblimit: keyfuncs.First: no keys")
}

func TestCombinationsKeepNoSliceOfTheCaller(t *testing.T) {
	t.Parallel()
	keys := []keyfuncs.Func{keyfuncs.Everyone()}
	join, first := keyfuncs.Join(keys...), keyfuncs.First(keys...)
	keys[0] = keyfuncs.Func{}
	wantKey(t, join, &request{}, "all")
	wantKey(t, first, &request{}, "all")
}
