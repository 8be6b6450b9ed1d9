package keyfuncs_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/keyfuncs"
)

// input is a part before it is encoded. Two parts are the same key exactly when
// their inputs are equal.
type input struct{ kind, value string }

// fuzzedPart makes one of all kinds of parts of a value, with a request that
// holds it. A value without bytes is a missing one.
func fuzzedPart(choice uint8, value string) (keyfuncs.Func, *request, input) {
	custom := func(kind string) (keyfuncs.Func, *request, input) {
		return keyfuncs.Custom(kind, returns(value)), &request{}, input{kind, value}
	}
	sent := value
	if choice%9 < 4 { // blanks around these are no part of them
		value = strings.TrimSpace(value)
	}
	switch choice % 9 {
	case 0:
		return keyfuncs.Header("X-A"), withHeader("X-A", sent), input{"header.x-a", value}
	case 1:
		return keyfuncs.Header("X-B"), withHeader("X-B", sent), input{"header.x-b", value}
	case 2:
		return keyfuncs.Cookie("a"), &request{cookies: map[string][]string{"a": {sent}}}, input{"cookie.a", value}
	case 3:
		return keyfuncs.APIKey(), withHeader("X-Api-Key", sent), input{"apikey", value}
	case 4:
		return keyfuncs.User("userID"), withUser(value), input{"user", value}
	case 5: // A template begins with a slash.
		return keyfuncs.Route(), &request{route: "/" + value}, input{"route", "/" + value}
	case 6:
		peer, network := fuzzedPeer(value)
		return keyfuncs.ClientIP(), &request{peer: peer}, input{"ip", network}
	case 7:
		return custom("a")
	default:
		return custom("a.b")
	}
}

// fuzzedPeer reads an address from the first bytes of value. network is what
// makes it another client: all of IPv4, half of IPv6.
func fuzzedPeer(value string) (peer, network string) {
	switch {
	case len(value) >= 16:
		addr := netip.AddrFrom16([16]byte([]byte(value[:16])))
		if addr.Is4In6() {
			return addr.String(), value[12:16]
		}
		return addr.String(), value[:8]
	case len(value) >= 4:
		return netip.AddrFrom4([4]byte([]byte(value[:4]))).String(), value[:4]
	}
	return "", ""
}

// merge is a request that holds what both hold, which must be parts of two kinds.
func merge(a, b *request) *request {
	m := &request{headers: http.Header{}, cookies: map[string][]string{}, values: map[any]any{}}
	for _, r := range []*request{a, b} {
		m.peer += r.peer
		m.route += r.route
		for k, v := range r.headers {
			m.headers[k] = v
		}
		for k, v := range r.cookies {
			m.cookies[k] = v
		}
		for k, v := range r.values {
			m.values[k] = v
		}
	}
	return m
}

func FuzzKeysAreInjectiveAndBounded(f *testing.F) {
	f.Add(uint8(4), "1.2.3.4", uint8(6), "\x01\x02\x03\x04", uint8(4), "1.2.3.4", uint8(0), "a")
	f.Add(uint8(0), "a:b", uint8(1), "c", uint8(0), "a", uint8(1), "b:c")
	f.Add(uint8(0), "a|header.x-b:b", uint8(1), "c", uint8(0), "a", uint8(1), "b|c")
	f.Add(uint8(3), "s3cret", uint8(4), hashed("apikey", "s3cret"), uint8(3), hashed("apikey", "s3cret"), uint8(4), "s3cret")
	f.Add(uint8(5), "{id}", uint8(7), "", uint8(8), "\xff\xfe", uint8(7), "b:c")
	f.Add(uint8(6), "0123456789abcdef", uint8(4), "é", uint8(6), "01234567********", uint8(4), "e\u0301")
	f.Fuzz(func(t *testing.T, k1 uint8, v1 string, k2 uint8, v2 string, k3 uint8, v3 string, k4 uint8, v4 string) {
		type fuzzed struct {
			f   keyfuncs.Func
			r   *request
			in  input
			key string
			ok  bool
		}
		var p [4]fuzzed
		for i, c := range []struct {
			choice uint8
			value  string
		}{{k1, v1}, {k2, v2}, {k3, v3}, {k4, v4}} {
			f, r, in := fuzzedPart(c.choice, c.value)
			key, presence := f.Key(r)
			ok := presence == keyfuncs.Present
			p[i] = fuzzed{f, r, in, key, ok}
			if ok != (in.value != "") {
				t.Fatalf("%q has key %q, %t", in, key, ok)
			}
			if !ok {
				continue
			}
			wantStorable(t, key)
			if in.kind != "ip" && keyfuncs.Encode(in.kind, in.value) != key {
				t.Fatalf("Encode(%q, %q) = %q, want %q", in.kind, in.value, keyfuncs.Encode(in.kind, in.value), key)
			}
			if same := string(keyfuncs.AppendKey(nil, key)); same != key {
				t.Fatalf("AppendKey(%q) = %q, want it as it is", key, same)
			}
			wantStorable(t, keyfuncs.Encode(c.value, "x")) // a kind of any spelling
		}

		// One part against another, also under a secret.
		secret := func(p fuzzed) string {
			key, presence := p.f.WithSecret([]byte("0123456789abcdef")).Key(p.r)
			if presence != keyfuncs.Present || key == p.key {
				t.Fatalf("%q has key %q, %v under a secret", p.in, key, presence)
			}
			wantStorable(t, key)
			return key
		}
		for i := range p {
			for j := range i {
				if !p[i].ok || !p[j].ok {
					continue
				}
				same := p[i].in == p[j].in
				if (p[i].key == p[j].key) != same || (secret(p[i]) == secret(p[j])) != same {
					t.Fatalf("%q and %q: keys %q and %q", p[i].in, p[j].in, p[i].key, p[j].key)
				}
			}
		}

		// Two parts, once alone and once many times over, which is hashed.
		join := func(a, b fuzzed, times int) (string, bool) {
			if a.in.kind == b.in.kind || !a.ok || !b.ok {
				return "", false
			}
			var keys []keyfuncs.Func
			for range times {
				keys = append(keys, a.f, b.f)
			}
			key, presence := keyfuncs.Join(keys...).Key(merge(a.r, b.r))
			if presence != keyfuncs.Present {
				t.Fatalf("no key for %q and %q", a.in, b.in)
			}
			wantStorable(t, key)
			if same := string(keyfuncs.AppendKey(nil, key)); same != key {
				t.Fatalf("AppendKey(%q) = %q, want it as it is", key, same)
			}
			return key, true
		}
		var keys []string
		for _, times := range []int{1, 2, 20} {
			left, ok1 := join(p[0], p[1], times)
			right, ok2 := join(p[2], p[3], times)
			same := p[0].in == p[2].in && p[1].in == p[3].in
			if ok1 && ok2 && (left == right) != same {
				t.Fatalf("%q, %q and %q, %q: keys %q and %q", p[0].in, p[1].in, p[2].in, p[3].in, left, right)
			}
			if ok1 {
				keys = append(keys, left)
			}
		}

		// Joins against their own lengths and against single parts.
		for i, key := range keys {
			for _, other := range keys[:i] {
				if key == other {
					t.Fatalf("two joins share %q", key)
				}
			}
			for _, part := range p {
				if part.ok && part.key == key {
					t.Fatalf("%q has the key of a join, %q", part.in, key)
				}
			}
		}

		// Keys of an app's own.
		for _, pair := range [][2]string{{v1, v2}, {v1, v3}, {v1, string(keyfuncs.AppendKey(nil, v1))}} {
			a, b := string(keyfuncs.AppendKey(nil, pair[0])), string(keyfuncs.AppendKey(nil, pair[1]))
			if (a == b) != (pair[0] == pair[1]) {
				t.Fatalf("AppendKey of %q and %q: %q and %q", pair[0], pair[1], a, b)
			}
			wantStorable(t, a)
		}
	})
}
