package redisstore_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

// The whole suite passes for a user with the permissions that docs/redis.md lists.
// internal/test/faults tests that these permit nothing else.
func TestTheStoreUnderTheLeastPrivilege(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ACL SETUSER weblimit on >secret (.*)$`).FindSubmatch(text)
	if line == nil {
		t.Fatal("docs/redis.md has no ACL line")
	}
	server := redistest.Start(t)
	server.User(t, "weblimit", strings.Fields(string(line[1]))...)
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		prefix := redisstore.DefaultPrefix + redistest.Prefix(t)
		return redisstore.NewAt(server.ClientAs(t, "weblimit"), clock.Micros, redisstore.Config{Prefix: prefix})
	})
}
