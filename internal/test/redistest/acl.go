package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// User creates the ACL user name, or replaces it, with the rules and nothing else:
//
//	s.User(t, "narrow", "~app:*", "+get", "+evalsha")
//
// [Server.ClientAs] logs in as the user. Restart removes the user. Servers before Redis 6.0,
// which have no users, skip the test.
func (s *Server) User(tb testing.TB, name string, rules ...string) {
	tb.Helper()
	Since(tb, 6, 0, "ACLs")
	args := []any{"acl", "setuser", name, "reset", "on", ">" + password(name)}
	for _, rule := range rules {
		args = append(args, rule)
	}
	s.must(tb, args...)
}

// ClientAs is [Server.Client] logged in as a user made by [Server.User].
func (s *Server) ClientAs(tb testing.TB, name string) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{
		Network: s.network, Addr: s.addr, Username: name, Password: password(name),
	})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// password protects nothing. It only makes a test fail if a client did not log in.
func password(user string) string { return "password of " + user }
