package script

import (
	"fmt"
	"testing"
)

// Stores are given any bytes as keys. Each has a Redis key of its own, from which it can be read.
func TestEveryClientKeyHasARedisKey(t *testing.T) {
	t.Parallel()
	of := map[string]string{}
	for _, key := range []string{"", "}", "}}", "}x", "\x00", "\x00}", "\x00\x00", "x", "x}", "{", "{}", "}{x", "user:1"} {
		redisKey := string(AppendKey(nil, "p:", []byte(key)))
		if other, taken := of[redisKey]; taken {
			t.Errorf("the client keys %q and %q share %q", key, other, redisKey)
		}
		of[redisKey] = key
		if got := TagOf("p:", redisKey); got != key {
			t.Errorf("client key %q: %q is read as that of %q", key, redisKey, got)
		}
		if len(redisKey) < 4 || redisKey[3] == '}' {
			t.Errorf("client key %q: %q has an empty hash tag, which for Redis is none", key, redisKey)
		}
	}
	if got, want := fmt.Sprintf("%q", AppendKey(nil, "p:", []byte("user:1"))), `"p:{user:1}"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
