package core

// Stats are numbers of a limiter at one moment, for metrics and pages. Buckets and Outage are those of
// its store, the same for all limiters on it.
type Stats struct {
	// Waiting is how many requests wait for their turn; see [Limit.Wait].
	Waiting int64

	// Buckets is how many buckets are in the memory of this process: those of a store in
	// memory, and those by which this process decided in outages.
	Buckets int

	// Outage is true if the store did not answer, and has not made all decisions for a second
	// since. Only decisions tell, so it stays true while none is asked for.
	Outage bool

	// Version is that of the configuration that decides; see [Decision.Version]. It is empty once the
	// limiter's policy was removed.
	Version string

	// Refused is true if the configuration is not what it should be: its policy file has changed, and
	// the change was refused, or can't be read. The version of before decides.
	Refused bool
}

// Stats returns the limiter's numbers. It does not ask a server. It is safe for concurrent use.
func (l *Limiter) Stats() Stats {
	refused, version := false, l.now().version
	if l.Ended() {
		version = ""
	} else if l.live != nil {
		refused = l.live.refused.Load()
	}
	l = l.now()
	buckets := l.shared.local.Len()
	if count := l.shared.Server().Buckets; count != nil {
		buckets += count()
	}
	return Stats{
		Waiting: l.waitlist.waiting(),
		Buckets: buckets,
		Outage:  l.shared.Out(),
		Version: version,
		Refused: refused,
	}
}

// Store returns the limiter's store. Its Registry is the same for all limiters on one store, however
// each has wrapped it.
func (l *Limiter) Store() Store { return l.now().store }
