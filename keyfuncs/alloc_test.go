package keyfuncs_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// What everyFunc does not have: values of other types, other arguments and combinations.
//
// Not parallel: testing.AllocsPerRun counts the allocations of the process.
func TestAppendDoesNotAllocate(t *testing.T) {
	ip, user, route, method := keyfuncs.ClientIP(), keyfuncs.User("userID"), keyfuncs.Route(), keyfuncs.Method()
	for _, tt := range []struct {
		name string
		f    keyfuncs.Func
		r    *request
	}{
		{"IPv4", ip, &request{peer: "192.0.2.7"}},
		{"IPv6", ip, &request{peer: "2001:db8:1:2:3:4:5:6"}},
		{"a bearer token", keyfuncs.APIKey(), withHeader("Authorization", "Bearer s3cret")},
		{"a user with a number", user, withUser(1234567)},
		{"a user with a number of a type", user, withUser(userID(1234567))},
		{"a user with a name of a type", user, withUser(userName("alice"))},
		{"no user", user, &request{}},
		{"a route with braces", route, &request{route: "/users/{id}"}},
		{"a method", method, &request{method: "HEAD"}},
		{"a join", keyfuncs.Join(ip, user, route, method, keyfuncs.Everyone()), &request{
			peer: "192.0.2.7", route: "/users/:id", method: "GET", values: map[any]any{"userID": "alice"},
		}},
		{"a join that is hashed", keyfuncs.Join(keyfuncs.Header("A"), keyfuncs.Header("B"), keyfuncs.Header("C"), keyfuncs.Header("D")), &request{
			headers: http.Header{
				"A": {strings.Repeat("a", 64)}, "B": {strings.Repeat("b", 64)},
				"C": {strings.Repeat("c", 64)}, "D": {strings.Repeat("d", 64)},
			},
		}},
		{"a tenant with a number", keyfuncs.Tenant("userID"), withUser(userID(7))},
		{"a secret", keyfuncs.Join(ip, keyfuncs.APIKey(), method).WithSecret([]byte("0123456789abcdef")), &request{
			peer: "192.0.2.7", method: "GET", headers: http.Header{"X-Api-Key": {"s3cret"}},
		}},
		{"a first", keyfuncs.First(user, keyfuncs.APIKey(), ip), &request{peer: "192.0.2.7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dst := make([]byte, 0, 512)
			var key []byte
			allocs := testing.AllocsPerRun(100, func() { key, _ = tt.f.Append(dst, tt.r) })
			check.Equal(t, fmt.Sprintf("allocations for %.60q", key), allocs, 0)
		})
	}
}

func TestAppendKeyDoesNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 512)
	for _, key := range []string{"tenant:42", "tenant:{42}", strings.Repeat("x", 1<<20)} {
		check.Equal(t, fmt.Sprintf("allocations for %.20q", key), testing.AllocsPerRun(100, func() { keyfuncs.AppendKey(dst, key) }), 0)
	}
}
