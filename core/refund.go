package core

// RefundOn gives back what a request was charged if f says so of its outcome: for
// failures that should cost nothing, or for successes where only failures
// should count. Ready ones are [ServerErrors], [Failures], [Successes] and
// [Canceled]; each says what clients can make of it. Until the outcome is known
// the charge counts.
//
// What the handler has told by [Charge] stays charged, whatever f says: of an
// estimate only the part is given back that Charge did not confirm. So charge for
// work as it is done, and a failure gives back what was not done.
//
// What is given back is what still counts of that charge: units of a window that
// is over, or that a bucket has regained, are not given twice. It happens in the
// background after the response, and not at all if the process dies or the store
// does not answer then. f runs once per charged request, maybe on many at once.
// It must not block.
func (l Limit) RefundOn(f func(Outcome) bool) Limit {
	l.refundOn = f
	return l
}

// ServerErrors are responses of status 500 and above, panics included, that the
// client did not bring about: not of a request that was canceled, nor of one that
// kept its handler waiting for a second or more, or for half of the request's time
// if that is 100 ms or more: for a body that trickles in or a response that trickles
// out. Clients that upload slowly are charged for server errors, too.
//
// A client gets for free what it can make the application fail at: answer bad
// requests with 4xx.
func ServerErrors(o Outcome) bool {
	return (o.Status >= 500 || o.Panicked) && !o.clients()
}

// Failures are [ServerErrors] and responses of status 400 to 499. Clients can
// cause those at will, by asking for what does not exist, say: what they cost the
// server is free. Limit such requests by another limit, without a refund.
func Failures(o Outcome) bool {
	return (o.Status >= 400 || o.Panicked) && !o.clients()
}

// Successes are responses of a status below 400 to requests that were neither
// canceled nor timed out. A login form that refunds them counts failed attempts
// only, and those whose client hung up before it was told.
func Successes(o Outcome) bool {
	return o.Status < 400 && !o.Panicked && !o.Canceled && !o.TimedOut
}

// Canceled are requests whose client hung up, or that ran into a time-out.
//
// Hanging up is free then, by definition: a client can have all the work done that
// is done before its answer, hang up, and owe nothing. Refund it only where work
// stops with the client, and have another limit beside it without a refund.
func Canceled(o Outcome) bool { return o.Canceled || o.TimedOut }
