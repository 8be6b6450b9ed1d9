package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/keyfuncs"
)

// What docs/use/testing.md says of miniredis: its Lua has no library struct, so no script of ours
// runs on it, and each decision is that of an outage. When this fails, miniredis has learned
// it: say so there.
func TestMiniredisDoesNotRunTheScript(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	limiter := core.Must(core.New(core.Config{
		Store:   redisstore.New(client),
		Limits:  []core.Limit{core.PerHour(2).By(keyfuncs.Everyone()).Named("all")},
		Timeout: 10 * time.Second,
	}))
	d := limiter.AllowKey(t.Context(), "k", 1)
	if !d.Allowed || d.Reason != core.ReasonOutageLocal || d.Err == nil || !strings.Contains(d.Err.Error(), "'struct'") {
		t.Errorf("%v: %v", d.Reason, d.Err)
	}
}
