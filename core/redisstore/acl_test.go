package redisstore_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

// The whole suite passes for a user with the permissions that docs/run/redis.md lists.
// internal/test/faults tests that these permit nothing else.
func TestTheStoreUnderTheLeastPrivilege(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../docs/run/redis.md"))(t)
	line := regexp.MustCompile(`(?m)^ACL SETUSER weblimit on >secret (.*)$`).FindSubmatch(text)
	if line == nil {
		t.Fatal("docs/run/redis.md has no ACL line")
	}
	// Redis 6.0 has neither channels in its rules nor selectors, which come with 6.2 and 7.0.
	for _, rule := range strings.Fields(string(line[1])) {
		if !regexp.MustCompile(`^(resetkeys|~[a-z]+:\*|-@all|\+[a-z]+(\|[a-z]+)?)$`).MatchString(rule) {
			t.Errorf("%q in the ACL line is no rule of Redis 6.0", rule)
		}
	}
	server := redistest.Start(t)
	server.User(t, "weblimit", strings.Fields(string(line[1]))...)
	storetest.RunAgain(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		prefix := redisstore.DefaultPrefix + redistest.Prefix(t)
		return redisstore.NewAt(server.ClientAs(t, "weblimit"), clock.Micros, redisstore.Config{Prefix: prefix})
	})
}
