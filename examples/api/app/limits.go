package app

import (
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Whose requests are counted together. Behind a proxy, list it here:
// keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8")).
var (
	client = keyfuncs.ClientIP()
	user   = keyfuncs.User("user")
	apiKey = keyfuncs.APIKey("X-API-Key")
)

// signedIn holds for requests to which authentication has given a user.
var signedIn = keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value("user") != nil })

// One limit for each thing to protect. The comments say why each has its algorithm.
var (
	// Attackers guess passwords and codes. Logins are counted exactly over any quarter
	// of an hour. Tries of a code are counted in windows of ten minutes.
	login = core.Per(5, 15*time.Minute).SlidingLog().By(client).Named("login")
	otp   = core.Per(3, 10*time.Minute).FixedWindow().By(client).Named("otp")

	// Reading is cheap, and pages load in bursts.
	reads = core.PerSecond(100).Burst(1000).By(client).Named("reads")

	// Writing is expensive, and comes without bursts.
	mutations = core.PerMinute(300).SlidingWindow().By(user).Named("mutations")
	uploads   = core.PerSecond(1).Burst(10).By(user).Named("uploads")

	// Providers send webhooks from networks that they publish. Webhooks from other
	// networks are counted, all together.
	webhooks = core.PerMinute(10_000).FixedWindow().By(keyfuncs.Route()).
			Unless(keyfuncs.FromCIDR("192.0.2.0/24", "2001:db8:42::/48")).Named("webhooks")

	// Each call costs money. Clients get a warning before the limit is used up.
	ai = core.PerMinute(20).By(user).OnMissingKey(core.DenyRequest).WarnAt(0.8, 0.95).Named("ai")

	// Searching is free for signed-in users.
	anonymousSearch = core.PerMinute(30).By(client).Unless(signedIn).Named("anonymous-search")

	// 60 a second for each API key, of which 10 may be searches and 2 exports; and a
	// bound per address for clients that try out keys.
	perAddress   = core.PerSecond(100).Burst(1000).By(client).Named("address")
	perKey       = core.PerSecond(60).By(apiKey).Named("key")
	perKeySearch = core.PerSecond(10).By(apiKey).Named("key-search")
	perKeyExport = core.PerSecond(2).By(apiKey).Named("key-export")

	// The limit that a customer pays for.
	plan = core.PerMinute(60).By(user).OnMissingKey(core.DenyRequest).Tiers(tier).Named("plan")
)

// tiers has the numbers of each plan; other users have those of the limit plan.
var tiers = map[string]core.Limit{
	"basic":   core.PerMinute(600),
	"premium": core.PerMinute(6000).Burst(10_000),
}

// tier looks up the plan that authentication has stored.
func tier(r keyfuncs.Request) core.Limit {
	name, _ := r.Value("plan").(string)
	return tiers[name]
}
