package clientkeys_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/clientkeys"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestTheKeysThatSomebodyMeans(t *testing.T) {
	t.Parallel()
	key := keyfuncs.Encode("apikey", "secret")
	joined := keyfuncs.EncodeJoin(keyfuncs.Encode("user", "a"), keyfuncs.Encode("route", "/"+strings.Repeat("r", 60)))
	for _, test := range []struct {
		name, kinds, text string
		want              []string
	}{
		{"a whole key", "ip", "ip:192.0.2.7", []string{"ip:192.0.2.7"}},
		{"an address", "ip", "192.0.2.7", []string{"ip:192.0.2.7"}},
		{"an address with blanks", "ip", " 192.0.2.7 ", []string{"ip:192.0.2.7"}},
		{"an IPv6 address is its network", "ip", "2001:DB8::1", []string{"ip:2001:db8::/64"}},
		{"so is one with its kind", "ip", "ip:2001:db8::1", []string{"ip:2001:db8::/64"}},
		{"a network of IPv6", "ip", "2001:db8::/64", []string{"ip:2001:db8::/64"}},
		{"an address within such a network", "ip", "ip:2001:db8::1/64", []string{"ip:2001:db8::/64"}},
		{"a network that is none of the limit's", "ip", "2001:db8::/56", nil},
		{"an address of which 56 bits count", "ip/56", "2001:db8:0:1f::1", []string{"ip:2001:db8::/56"}},
		{"such an address with its kind", "ip/56", "ip:2001:db8:0:1f::1", []string{"ip:2001:db8::/56"}},
		{"its network", "ip/56", "ip:2001:db8::/56", []string{"ip:2001:db8::/56"}},
		{"a network within it is no key", "ip/56", "2001:db8::/64", nil},
		{"an address of IPv4, whatever counts of IPv6", "ip/56", "192.0.2.7", []string{"ip:192.0.2.7"}},
		{"an address and a route, of which 128 bits count", "join(ip/128,route)", "ip:2001:db8::1|route:/", []string{"ip:2001:db8::1/128|route:/"}},
		{"an address with bits, under a secret", "secret(ip/56)", "ip:192.0.2.7", nil},
		{"a network of IPv4 is nobody's key", "ip", "192.0.2.0/24", nil},
		{"a name is no address", "ip", "alice", nil},
		{"a name with the kind of an address is none, either", "ip", "ip:alice", nil},
		{"a user", "user", "alice", []string{"user:alice"}},
		{"a key of another kind is no user's name", "user", "ip:192.0.2.7", nil},
		{"nor is that of a header", "user", "header.x-tenant:42", nil},
		{"a user whose name looks like a key of another kind", "user", "user:ip:192.0.2.7", []string{"user:ip:192.0.2.7"}},
		{"a user whose name has a colon", "user", "google:42", []string{"user:google:42"}},
		{"a key of another kind", "ip", "user:alice", nil},
		{"an API key is hashed", "apikey", "secret", []string{key}},
		{"an API key with its kind, too", "apikey", "apikey:secret", []string{key}},
		{"a hashed key stays as it is", "apikey", key, []string{key}},
		{"one of two kinds", "first(user,ip)", "192.0.2.7", []string{"user:192.0.2.7", "ip:192.0.2.7"}},
		{"a whole key of one of them", "first(user,ip)", "ip:192.0.2.7", []string{"ip:192.0.2.7"}},
		{"two kinds together, whole", "join(ip,route)", "ip:192.0.2.7|route:/login", []string{"ip:192.0.2.7|route:/login"}},
		{"two kinds together, an address of IPv6", "join(ip,route)", "ip:2001:db8::1|route:/login", []string{"ip:2001:db8::/64|route:/login"}},
		{"half of such a key", "join(ip,route)", "ip:192.0.2.7", nil},
		{"the other half", "join(ip,route)", "192.0.2.7", nil},
		{"joined keys in the wrong order", "join(ip,route)", "route:/login|ip:192.0.2.7", nil},
		{"one of two kinds, with another", "join(first(user,ip),route)", "ip:192.0.2.7|route:/", []string{"ip:192.0.2.7|route:/"}},
		{"a long joined key", "join(user,route)", joined, []string{joined}},
		{"an address under a secret", "secret(ip)", "ip#0123456789012345678901", []string{"ip#0123456789012345678901"}},
		{"the same without the secret", "secret(ip)", "ip:192.0.2.7", nil},
		{"the same without its kind", "secret(ip)", "192.0.2.7", nil},
		{"a hash where limits write addresses", "ip", "ip#0123456789012345678901", nil},
		{"one part under a secret", "join(secret(user),route)", "user#0123456789012345678901|route:/login", []string{"user#0123456789012345678901|route:/login"}},
		{"the same with the user's name", "join(secret(user),route)", "user:alice|route:/login", nil},
		{"all parts under a secret", "secret(join(user,all))", "user#0123456789012345678901|all", []string{"user#0123456789012345678901|all"}},
		{"one of two kinds under a secret", "secret(first(user,ip))", "user:alice", nil},
		{"one of two kinds, of which one is under a secret", "first(secret(user),ip)", "192.0.2.7", []string{"ip:192.0.2.7"}},
		{"a text that is no hash", "ip", "ip#alice", nil},
		{"a long text is no address", "ip", strings.Repeat("x", 100), nil},
		{"everyone", "all", "all", []string{"all"}},
		{"somebody of everyone", "all", "alice", nil},
		{"a limit by operations, too", "user once per header.idempotency-key", "alice", []string{"user:alice"}},
		{"kinds from a list", "user, ip", "ip:192.0.2.7", []string{"ip:192.0.2.7"}},
		{"an empty text", "user", "", nil},
		{"kinds that are not known", "", "alice", nil},
		{"kinds that can't be read", "join(user", "user:alice", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := clientkeys.Meant(test.kinds, test.text)
			check.Equal(t, "keys", fmt.Sprint(got), fmt.Sprint(test.want))
			for _, key := range got {
				check.Equal(t, "Match of "+key, clientkeys.Match(test.kinds, key), true)
				check.Equal(t, "the key as stores have it", string(keyfuncs.AppendKey(nil, key)), key)
			}
		})
	}
}

func TestWhatALimitCanNotCount(t *testing.T) {
	t.Parallel()
	for _, test := range [][2]string{
		{"ip", "192.0.2.7"},
		{"ip", "ip:alice"},
		{"ip", "ip:2001:db8::1"},
		{"ip", "ip:192.0.2.0/24"},
		{"ip", "ip:2001:db8::/56"},
		{"ip/56", "ip:2001:db8::/64"},
		{"ip/56", "ip#0123456789012345678901"},
		{"secret(ip/56)", "ip:2001:db8::/56"},
		{"ip", "user:alice"},
		{"ip", "ip:192.0.2.7|route:/login"},
		{"apikey", "apikey:secret"},
		{"join(ip,route)", "ip:192.0.2.7"},
		{"all", "all:1"},
		{"user", keyfuncs.Encode("ip", "192.0.2.7")},
		{"user", string(keyfuncs.AppendKey(nil, "odd{key}"))},
	} {
		check.Equal(t, test[0]+" counts "+test[1], clientkeys.Match(test[0], test[1]), false)
	}
	for _, unknown := range []string{"", "?", "join(", "first(user,ip", "user)"} {
		check.Equal(t, "kinds that are not known count any key, those of "+unknown, clientkeys.Match(unknown, "k"), true)
	}
}

// Who knows the secrets finds the keys of each limit.
func TestTheKeysThatSomebodyMeansUnderASecret(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	address, user := keyfuncs.ClientIP(keyfuncs.IPv6Prefix(56)).WithSecret(secret), keyfuncs.User("id").WithSecret(secret)
	hidden := func(f keyfuncs.Func, plain string) string {
		key, _ := f.Conceal(plain)
		return key
	}
	for _, test := range []struct {
		name, text string
		f          keyfuncs.Func
		want       []string
	}{
		{"an address", "2001:db8::1", address, []string{hidden(address, "ip:2001:db8::/56")}},
		{"an address with its kind", "ip:2001:db8::1", address, []string{hidden(address, "ip:2001:db8::/56")}},
		{"a hash", hidden(user, "user:alice"), user, []string{hidden(user, "user:alice")}},
		{"a user", "alice", user, []string{hidden(user, "user:alice")}},
		{"no address", "alice", address, nil},
		{"two kinds", "192.0.2.7", keyfuncs.First(user, keyfuncs.ClientIP()), []string{"ip:192.0.2.7", hidden(user, "user:192.0.2.7")}},
		{"two kinds together", "user:alice|route:/", keyfuncs.Join(user, keyfuncs.Route()), []string{hidden(user, "user:alice") + "|route:/"}},
		{
			"two kinds under a secret", "user:alice|route:/", keyfuncs.Join(keyfuncs.User("id"), keyfuncs.Route()).WithSecret(secret),
			[]string{hidden(keyfuncs.Join(keyfuncs.User("id"), keyfuncs.Route()).WithSecret(secret), "user:alice|route:/")},
		},
		{"no secret", "alice", keyfuncs.User("id"), []string{"user:alice"}},
	} {
		got := clientkeys.MeantUnder(test.f.Kind(), test.text, test.f.Conceal)
		check.Equal(t, test.name, fmt.Sprint(got), fmt.Sprint(test.want))
	}
	check.Equal(t, "kinds in keys", fmt.Sprint(clientkeys.Kinds("first(secret(ip/56),secret(user))")), "[ip user]")
}

func TestAnExampleIsAKeyOfItsLimit(t *testing.T) {
	t.Parallel()
	for _, kinds := range []string{"ip", "user", "all", "apikey", "header.x-tenant", "join(ip,route)", "first(user,ip)", "join(first(user,ip),method,param.id)", "ip/56", "secret(ip/48)", "join(secret(ip/48),route)"} {
		if example := clientkeys.Example(kinds); !clientkeys.Match(kinds, example) {
			t.Errorf("a limit by %s can't count %q", kinds, example)
		}
	}
	check.Equal(t, "an example of kinds that are not known", clientkeys.Example(""), "")
}

func FuzzMeant(f *testing.F) {
	f.Add("first(user,ip)", "192.0.2.7")
	f.Add("join(ip,route)", "ip:2001:db8::1|route:/")
	f.Fuzz(func(t *testing.T, kinds, text string) {
		for _, key := range clientkeys.Meant(kinds, text) {
			if !clientkeys.Match(kinds, key) {
				t.Errorf("Meant(%q, %q) is %q, which does not match", kinds, text, key)
			}
		}
	})
}

func TestClientsThatDivideALimit(t *testing.T) {
	t.Parallel()
	for kinds, want := range map[string]string{
		"user":                           "",
		"user once per header.x-op":      "",
		"all divided among user":         "user equal",
		"all divided by weight among ip": "ip",
		"route divided among first(user,ip) and header.x-user once per header.x-op": "first(user,ip) equal",
		"all divided by weight among join(user,route) and ip":                       "join(user,route)",
	} {
		got, equal := clientkeys.Clients(kinds)
		if equal {
			got += " equal"
		}
		check.Equal(t, kinds, got, want)
	}
	check.All(t, "the bucket is the limit's", []any{clientkeys.Match("all divided among user", "all"), clientkeys.Match("all divided among user", "user:a")}, true, false)
}
