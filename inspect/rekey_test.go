package inspect_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A policy file changes what a limit counts by, while addresses are on the lists, and one is blocked. The page said
// that an address was denied by a limit that counted users, and blocked it with success, and nobody was blocked.
func TestALimitWhoseKeyHasChanged(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	in := start(t, s)
	by := func(key keyfuncs.Func) core.Config {
		return core.Config{Store: s, Limits: []core.Limit{core.PerHour(2).By(key).Named("client")}, Observe: in.heavy}
	}
	var live compose.Live
	l := must.Get(live.Limiter(by(keyfuncs.ClientIP())))(t)
	address := keyfuncs.Values{"ip": "192.0.2.7"}
	for range 4 {
		l.Allow(address)
	}
	in.must(t, "POST", "api/v1/block", `{"key":"ip:192.0.2.9","limit":"client","seconds":600}`, nil)
	must.OK(t, live.Replace(by(keyfuncs.User("user"))))

	// Denied is one who has the address as a name, and not the address.
	for range 3 {
		l.Allow(keyfuncs.Values{"user": "192.0.2.7", "ip": "192.0.2.7"})
	}
	var e struct {
		Keys []struct {
			Key, State, Summary string
			Limits              []struct{ Limit, State, Why string }
		}
	}
	time.Sleep(time.Second + time.Second/10) // an overview is good for a second
	in.must(t, "POST", "api/v1/explain", `{"query":"ip:192.0.2.7"}`, &e)
	check.All(t, "an address is", []any{len(e.Keys), e.Keys[0].Key, e.Keys[0].State}, 1, "ip:192.0.2.7", "allowed")
	check.Contains(t, "it is explained", e.Keys[0].Summary+" "+e.Keys[0].Limits[0].Why, "the limit counts by user now, and no more by ip")
	in.must(t, "POST", "api/v1/explain", `{"query":"user:192.0.2.7"}`, &e)
	check.All(t, "a user is", []any{len(e.Keys), e.Keys[0].Key, e.Keys[0].State}, 1, "user:192.0.2.7", "denied")

	status, answer := in.call(t, "POST", "api/v1/block", `{"key":"ip:192.0.2.7","limit":"client","seconds":60}`)
	check.Equal(t, "a block of the address", status, http.StatusUnprocessableEntity)
	check.Contains(t, "a block of the address", answer, "counts by user now, and no more by ip, so this would block nobody")
	in.must(t, "POST", "api/v1/block", `{"key":"user:192.0.2.7","limit":"client","seconds":60}`, nil)

	var b struct{ Blocks []struct{ Key, Idle string } }
	in.must(t, "GET", "api/v1/blocks", "", &b)
	idle := make(map[string]string)
	for _, block := range b.Blocks {
		idle[block.Key] = block.Idle
	}
	check.All(t, "blocks that block nobody", []any{len(idle), idle["ip:192.0.2.9"], idle["user:192.0.2.7"]}, 2, "the limit counts by user now", "")
	in.must(t, "POST", "api/v1/unblock", `{"key":"ip:192.0.2.9","limit":"client"}`, nil)
	if in.must(t, "GET", "api/v1/blocks", "", &b); strings.Contains(b.Blocks[0].Key, "ip:") {
		t.Errorf("the block of before can't be ended: %+v", b.Blocks)
	}
}
