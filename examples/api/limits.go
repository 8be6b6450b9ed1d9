package main

import (
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Who is limited. Behind a proxy, name it here:
// keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8")).
var (
	client = keyfuncs.ClientIP()
	user   = keyfuncs.User("user")
	apiKey = keyfuncs.APIKey("X-API-Key")
)

// signedIn holds for requests that the authentication has given a user.
var signedIn = keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value("user") != nil })

// The limits, one for each thing that has to be protected. What each protects
// says which algorithm it has.
var (
	// Passwords and codes are guessed: exact over any quarter of an hour, and a
	// code's three tries are three, however the minutes fall.
	login = core.Per(5, 15*time.Minute).SlidingLog().By(client).Named("login")
	otp   = core.Per(3, 10*time.Minute).FixedWindow().By(client).Named("otp")

	// Reading is cheap, and pages load in bursts.
	reads = core.PerSecond(100).Burst(1000).By(client).Named("reads")

	// Writing is not, and has no business coming in bursts.
	mutations = core.PerMinute(300).SlidingWindow().By(user).Named("mutations")
	uploads   = core.PerSecond(1).Burst(10).By(user).Named("uploads")

	// Providers send webhooks from networks that they publish; what claims to be
	// them from elsewhere is counted, all together.
	webhooks = core.PerMinute(10_000).FixedWindow().By(keyfuncs.Route()).
			Unless(keyfuncs.FromCIDR("192.0.2.0/24", "2001:db8:42::/48")).Named("webhooks")

	// Each call costs money. Clients are told before it ends.
	ai = core.PerMinute(20).By(user).OnMissingKey(core.DenyRequest).WarnAt(0.8, 0.95).Named("ai")

	// Searching is free for those we know.
	anonymousSearch = core.PerMinute(30).By(client).Unless(signedIn).Named("anonymous-search")

	// 60 a second for each API key, of which 10 may be searches and 2 exports; and a
	// bound for those who try keys out.
	perAddress   = core.PerSecond(100).Burst(1000).By(client).Named("address")
	perKey       = core.PerSecond(60).By(apiKey).Named("key")
	perKeySearch = core.PerSecond(10).By(apiKey).Named("key-search")
	perKeyExport = core.PerSecond(2).By(apiKey).Named("key-export")

	// What a customer pays for.
	plan = core.PerMinute(60).By(user).OnMissingKey(core.DenyRequest).Tiers(tier).Named("plan")
)

// plans are the numbers of each plan; everybody else has those of plan itself.
var plans = map[string]core.Limit{
	"basic":   core.PerMinute(600),
	"premium": core.PerMinute(6000).Burst(10_000),
}

// tier looks up the plan that the authentication has found.
func tier(r keyfuncs.Request) core.Limit {
	name, _ := r.Value("plan").(string)
	return plans[name]
}
