package inspect_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// limitsByKind are limits that count clients by different kinds of keys.
func limitsByKind(s core.Store) *core.Limiter {
	penalty := core.Block{After: 1000, Within: time.Hour, For: time.Minute}
	return core.ForLimits(s, []core.Limit{
		core.PerHour(10).By(keyfuncs.ClientIP()).Named("by-address").Penalty(penalty),
		core.PerHour(10).By(keyfuncs.APIKey()).Named("by-api-key").Penalty(penalty),
		core.PerHour(10).By(keyfuncs.ClientIP(), keyfuncs.Route()).Named("by-address-and-route").Penalty(penalty),
	})
}

// A block of a bare address was answered with "Blocked", and blocked nobody.
func TestAnActionIsOnTheClientThatIsMeant(t *testing.T) {
	t.Parallel()
	apiKey := keyfuncs.Encode("apikey", "secret")
	for _, test := range []struct{ name, body, key, limit string }{
		{"a whole key", `{"key":"ip:192.0.2.7","limit":"by-address","seconds":60}`, "ip:192.0.2.7", "by-address"},
		{"an address", `{"key":"192.0.2.7","limit":"by-address","seconds":60}`, "ip:192.0.2.7", "by-address"},
		{"an address with blanks", `{"key":" 192.0.2.7 ","limit":"by-address","seconds":60}`, "ip:192.0.2.7", "by-address"},
		{"an address of IPv6", `{"key":"2001:db8::1","limit":"by-address","seconds":60}`, "ip:2001:db8::/64", "by-address"},
		{"such an address with its kind", `{"key":"ip:2001:DB8::1","limit":"by-address","seconds":60}`, "ip:2001:db8::/64", "by-address"},
		{"an API key", `{"key":"secret","limit":"by-api-key","seconds":60}`, apiKey, "by-api-key"},
		{"a hashed API key, as the page shows it", `{"key":"` + apiKey + `","limit":"by-api-key","seconds":60}`, apiKey, "by-api-key"},
		{"a hashed API key, under no limit", `{"key":"` + apiKey + `","seconds":60}`, apiKey, "by-api-key"},
		{"a key of two parts", `{"key":"ip:192.0.2.7|route:/login","limit":"by-address-and-route","seconds":60}`, "ip:192.0.2.7|route:/login", "by-address-and-route"},
		{"a key of two parts, under no limit", `{"key":"ip:192.0.2.7|route:/login","seconds":60}`, "ip:192.0.2.7|route:/login", "by-address-and-route"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := memstore.New()
			limiter := limitsByKind(s)
			in := start(t, s)
			var done struct {
				Key    string
				Limits []string
			}
			in.must(t, "POST", "api/v1/block", test.body, &done)
			check.All(t, "blocked", []any{done.Key, strings.Join(done.Limits, ",")}, test.key, test.limit)
			for blocked, err := range limiter.Blocks(context.Background()) {
				check.All(t, "a block", []any{blocked.Key, blocked.Limit, err}, test.key, test.limit, nil)
			}
			d := limiter.AllowKey(context.Background(), test.key, 1)
			check.Equal(t, "the next request", d.Reason, core.ReasonBlocked)
		})
	}
}

// Limits count other bits of an address, or hide it, each under a secret of its own: what an operator types is each
// time the key that the limit counts.
func TestAnActionFindsTheKeyOfItsLimit(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	wide := keyfuncs.ClientIP(keyfuncs.IPv6Prefix(56))
	funcs := map[string]keyfuncs.Func{
		"plain": keyfuncs.ClientIP(), "wide": wide,
		"hidden": wide.WithSecret([]byte("0123456789abcdef")), "other": wide.WithSecret([]byte("fedcba9876543210")),
	}
	limits := []core.Limit{core.PerHour(10).By(keyfuncs.First(keyfuncs.User("id").WithSecret([]byte("0123456789abcdef")), wide)).Named("users")}
	for name, key := range funcs {
		limits = append(limits, core.PerHour(10).By(key).Named(name))
	}
	limiter, in := core.ForLimits(s, limits), start(t, s)
	client := keyfuncs.Values{"ip": "2001:db8:0:1f::1"}
	for name, key := range funcs {
		counted, _ := key.Key(client)
		for _, text := range []string{"2001:db8:0:1f::1", "ip:2001:DB8:0:1F::1", counted} {
			var done struct{ Key string }
			in.must(t, "POST", "api/v1/block", `{"key":"`+text+`","limit":"`+name+`","seconds":60}`, &done)
			check.Equal(t, name+", blocked by "+text, done.Key, counted)
			check.Equal(t, name+", the next request", limiter.AllowKey(context.Background(), counted, 1).Reason, core.ReasonBlocked)
			var explained struct{ Keys []struct{ Key, State string } }
			in.must(t, "POST", "api/v1/explain", `{"query":"`+text+`"}`, &explained)
			check.All(t, name+", explained by "+text, []any{explained.Keys[0].Key, explained.Keys[0].State}, counted, "blocked")
			in.must(t, "POST", "api/v1/unblock", `{"key":"`+text+`","limit":"`+name+`"}`, &done)
			check.Equal(t, name+", the request after that", limiter.AllowKey(context.Background(), counted, 1).Allowed, true)
		}
	}
	s = memstore.New() // in which the limits have counted nothing
	core.ForLimits(s, limits)
	in = start(t, s)
	for body, says := range map[string]string{
		`{"key":"2001:db8:0:1f::1","seconds":60}`:                         "or under which limit",
		`{"key":"2001:db8:0:1f::1","limit":"users","seconds":60}`:         "say which.", // a user can have any name
		`{"key":"ip:2001:db8:0:1f::/64","limit":"wide","seconds":60}`:     "counts by ip/56",
		`{"key":"ip:2001:db8::/56","limit":"plain","seconds":60}`:         "counts by ip",
		`{"key":"user:alice","limit":"hidden","seconds":60}`:              "counts by secret(ip/56)",
		`{"key":"ip#0123456789012345678901","limit":"wide","seconds":60}`: "counts by ip/56",
	} {
		status, answer := in.call(t, "POST", "api/v1/block", body)
		check.Equal(t, body, status, http.StatusUnprocessableEntity)
		check.Contains(t, body, answer, says)
	}
}

func TestAnActionThatWouldReachNobodyIsRefused(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	limiter := limitsByKind(s)
	in := start(t, s)
	for _, test := range []struct{ name, path, body, says string }{
		{"a user under a limit by address", "block", `{"key":"alice","limit":"by-address","seconds":60}`, "by-address counts by ip"},
		{"a key of a user", "block", `{"key":"user:alice","limit":"by-address","seconds":60}`, "A key looks like ip:192.0.2.7."},
		{"a user with the kind of an address", "block", `{"key":"ip:alice","limit":"by-address","seconds":60}`, "counts by ip"},
		{"a network of IPv4", "block", `{"key":"192.0.2.0/24","limit":"by-address","seconds":60}`, "counts by ip"},
		{"half of a key", "block", `{"key":"192.0.2.7","limit":"by-address-and-route","seconds":60}`, "looks like ip:192.0.2.7|route:/login"},
		{"an end of blocks of a key of an unknown kind", "unblock", `{"key":"user:alice","limit":"by-address"}`, "counts by ip"},
		{"a reset of it", "reset", `{"key":"user:alice","limit":"by-address"}`, "counts by ip"},
		{"a key that may be two", "reset", `{"key":"192.0.2.7"}`, "say which"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			status, answer := in.call(t, "POST", "api/v1/"+test.path, test.body)
			check.Equal(t, "status", status, http.StatusUnprocessableEntity)
			check.Contains(t, "the answer", answer, test.says)
		})
	}
	t.Cleanup(func() {
		for blocked, err := range limiter.Blocks(context.Background()) {
			t.Errorf("blocked: %v, %v", blocked, err)
		}
	})
}

// What core.Limiter.AllowKey counts has any form. It can be acted on as soon as it has used something.
func TestAnActionOnAKeyOfTheApplication(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	limiter := limitsByKind(s)
	in := start(t, s)
	limiter.AllowKey(context.Background(), "job-7", 1)
	in.must(t, "POST", "api/v1/block", `{"key":"job-7","limit":"by-address","seconds":60}`, nil)
	check.Equal(t, "the next job", limiter.AllowKey(context.Background(), "job-7", 1).Reason, core.ReasonBlocked)
	in.must(t, "POST", "api/v1/unblock", `{"key":"job-7","limit":"by-address"}`, nil)
	check.Equal(t, "the job after that", limiter.AllowKey(context.Background(), "job-7", 1).Allowed, true)
}
