// Package regions makes limits hold over several regions, each of which decides with a store of its own. A round trip to
// another continent on every request is out of the question, and a limit per region gives whoever spreads requests the
// quota once per region. So each region decides within units that it has leased:
//
//	local := redisstore.New(redisOfThisRegion)
//	home := redisstore.New(redisOfTheHomeRegion)
//	store, err := regions.New(local, home, regions.Config{Region: "eu", Regions: 3})
//
// # Units
//
// The quota of a limit is divided once. Each region has a floor, a small fixed part that it grants without asking. The rest
// is the pool, which is a bucket at home. A region whose floor is used up leases units: they are charged to the pool, and then
// added to the share of the region, by a record in its own store that all its processes read. Requests are charged to the
// floor, and then to the share. So a unit that is granted anywhere was the region's own, or was charged at home before; and
// nothing is granted twice, whatever happens on the way. What can go wrong is that units are lost until their period is
// over: those of a process that dies between both stores, and those that a region has leased and does not need.
//
// A share is for one period: a window, or for a token bucket half of the time in which it fills, from 100ms to 30s.
// What is left of it then is gone. Leases are as large as the load of the key suggests, and never more than half of what
// home has left, so that other regions find some, too.
//
// No clocks are compared. A lease whose window home sees otherwise than the region goes back: regions whose clocks are in
// different windows live on their floors for so long.
//
// # Bounds
//
// In any window, all regions together admit at most the quota, and the overdraft once per region. Of a token bucket they
// admit in any time t at most burst + rate × t, what they had leased for the period in which t begins, and the overdrafts. This
// holds while links are cut, processes die and clocks differ. A region whose store loses its data, or whose clock steps back over
// the end of a window, can grant its floor and its share once more. A home that loses its data gives out nothing twice in a fixed or calendar window, as long as regions can tell it
// within five seconds what they have leased; a sliding window and a token bucket it takes to be unused but for that.
//
// What a response costs beyond its estimate uses up what the region has, and then the pool. So it can exceed a limit by the
// requests that are under way in each region, and by what other regions have already.
//
// A request costs a message to home only if its key has used most of its floor, and the region has leased too little; then it
// can wait for the answer (Config.Wait).
//
// The lower class of a limit with core.Limit.KeepFree leases for itself, and spends nothing that the upper class has leased. Tiers
// of one key do not: what a tier with a higher quota has leased, one with a lower quota can spend. Give them keys of
// their own if that matters.
package regions
