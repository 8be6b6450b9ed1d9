package core

// OutageAction is how a limit decides while its store does not answer.
type OutageAction uint8

const (
	// Local decides by a bucket in this process. Its limit is divided by Config.Replicas,
	// but at least one request of the limit's cost. It is full when the first outage
	// begins. What it granted is charged to the store afterwards, as far as it still
	// counts, with the first request of a client that the store decides again.
	// [Config.Fallback] replaces the bucket by another store or other limits.
	Local OutageAction = iota
	// Allow lets requests through this limit.
	Allow
	// Deny refuses requests with 503 Service Unavailable. If the store answers, and the ledger of its book
	// is only late, a calendar limit decides as by Local: see [store.Error].
	Deny
)

func (o OutageAction) valid() bool { return o <= Deny }

// OnOutage says how to decide while the store does not answer. Defaults to Local.
func (l Limit) OnOutage(o OutageAction) Limit {
	l.settings.set(setOutage)
	l.outage = o
	return l
}
