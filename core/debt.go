package core

// Debt sets how many units a client can come to owe, beyond all that the limit holds, for work that has cost more than was
// charged for it before: 0 or more. Requests are denied until it is waited off. Defaults to one burst.
//
//	core.PerMinute(10_000).By(keyfuncs.User("user")).Named("tokens").Estimate(500).Debt(50_000)
//
// Units are charged whether or not they fit when [Spend] reports them, when the store is told what this process has granted in
// an outage, and by the calls of the service that settle or charge. What is beyond the debt is forgiven: it is lost for good,
// and no request waits for it. Observers are told each time, as [Settlement].Forgiven, and metrics count it.
//
// Time takes a debt back as it takes back what is used. A token bucket regains it at the rate of the limit: a client that
// owes as much as it may in a minute ten times over waits for ten minutes. A window of any kind ends, and what is owed
// ends with it: there a debt above one burst makes nobody wait longer, and only says what was used. In a sliding window
// and a sliding log it counts as long as other use does. A limit that a book keeps, see package quota, counts what
// is owed, so a debt that is too small bills less than was used: there a large one is right.
//
// With Debt(0) a client owes nothing: of what a request costs more than is left, the rest is forgiven.
//
// A limit can get another debt while keys live. Of a token bucket whose debt becomes smaller, what a client owes by then
// becomes one burst if it takes longer than two windows to be waited off.
//
// The debt is in units, whatever the burst of a tier, a scaled limit or a class of [Limit.KeepFree] is; a limit that
// [Limit.Tiers] returns with a Debt of its own has that. It is an error if it is too large to be counted exactly, for a
// sliding log above 65,535 units with the quota, and for a [Concurrent] limit, in which nothing is owed.
func (l Limit) Debt(n int64) Limit {
	l.settings.set(setDebt)
	l.numbers.Debt, l.numbers.HasDebt = n, true
	return l
}
