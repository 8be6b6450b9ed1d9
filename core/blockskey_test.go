package core_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// After a policy file changed a limit's key from addresses to users, a block of an address was accepted if the
// store still had what it had used, and blocked nobody.
func TestABlockUnderAKeyOfBeforeIsAnError(t *testing.T) {
	t.Parallel()
	s := core.NewMemory()
	by := func(key keyfuncs.Func) core.Config {
		return core.Config{Store: s, Limits: []core.Limit{core.PerHour(5).By(key).Named("client")}}
	}
	var live compose.Live
	l := must.Get(live.Limiter(by(keyfuncs.ClientIP())))(t)
	l.Allow(keyfuncs.Values{"ip": "192.0.2.7"})
	must.OK(t, l.Block(t.Context(), "client", "ip:192.0.2.7", time.Minute))
	l.AllowKey(t.Context(), "job-7", 1)

	must.OK(t, live.Replace(by(keyfuncs.User("user"))))
	check.Equal(t, "a user named as the address that is blocked", l.Allow(keyfuncs.Values{"user": "192.0.2.7"}).Allowed, true)
	check.Fails(t, "a block under the key of before", l.Block(t.Context(), "client", "ip:192.0.2.7", time.Minute),
		`counts by user now, and no more by ip, so a block of "ip:192.0.2.7" would block nobody`)
	must.OK(t, l.Block(t.Context(), "client", "user:192.0.2.7", time.Minute))
	must.OK(t, l.Block(t.Context(), "client", "job-7", time.Minute)) // which only AllowKey counts
	must.OK(t, l.Unblock(t.Context(), "ip:192.0.2.7"))

	must.OK(t, live.Replace(by(keyfuncs.ClientIP())))
	check.Equal(t, "the address, with the first key again, after the end of its block", l.Allow(keyfuncs.Values{"ip": "192.0.2.7"}).Allowed, true)
	must.OK(t, l.Block(t.Context(), "client", "ip:192.0.2.7", time.Minute))
	check.Equal(t, "the address, blocked again", l.Allow(keyfuncs.Values{"ip": "192.0.2.7"}).Reason, core.ReasonBlocked)
}

// Under a secret a key is a hash. A block of what it is made of was accepted, and blocked nobody.
func TestABlockOfAKeyUnderASecret(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef-secret")
	address := keyfuncs.Values{"ip": "192.0.2.7"}
	for _, by := range []keyfuncs.Func{
		keyfuncs.ClientIP().WithSecret(secret),
		keyfuncs.First(keyfuncs.User("user"), keyfuncs.ClientIP()).WithSecret(secret),
		keyfuncs.Join(keyfuncs.ClientIP().WithSecret(secret), keyfuncs.Everyone()),
	} {
		l := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(5).By(by).Named("client")})
		for _, key := range []string{"ip:192.0.2.7", "ip:192.0.2.7|all", "192.0.2.7"} {
			check.Fails(t, by.Kind()+": a block of "+key, l.Block(t.Context(), "client", key, time.Minute), "would block nobody")
		}
		key, _ := by.Key(address)
		must.OK(t, l.Block(t.Context(), "client", key, time.Minute))
		check.Equal(t, by.Kind()+": the address, blocked by its hash", l.Allow(address).Reason, core.ReasonBlocked)
	}
}
