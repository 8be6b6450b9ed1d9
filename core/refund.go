package core

// RefundOn gives back a request's charge if f returns true for its outcome: for failures
// that should cost nothing, or for successes where only failures should count. Ready
// functions are [ServerErrors], [Failures], [Successes] and [Canceled]; each says how
// clients can exploit it. Until the outcome is known the charge counts.
//
// Units that the handler has reported with [Spend] stay charged in any case: of an
// estimate, only the unreported part is given back. So report work as it is done; then a
// failure gives back what was not done.
//
// Only what still counts is given back: units of a past window, or units that a bucket
// has regained, are not given twice. The refund happens in the background after the
// response. If the store is not asked then, in an outage, it happens afterwards, as far as
// the charge still counts. It is lost if the process dies, or if it is unknown whether the
// store has done it.
//
// f is called once per charged request, concurrently, and must be fast.
func (l Limit) RefundOn(f func(Outcome) bool) Limit {
	l.settings.setTo(setRefund, f == nil)
	l.refundOn = f
	return l
}

// ServerErrors is for [Limit.RefundOn]. It reports responses of status 500 and above,
// and panics, unless the client may have caused them. The client may have if the
// request was canceled, or if it kept its handler waiting, with a body that trickles in
// or a response that trickles out: for a second or more, or for half of the request's
// time if that is 100 ms or more. So clients that upload slowly pay for server errors.
//
// Whatever input makes the application answer 500 is free for the client. Answer bad
// requests with 4xx.
func ServerErrors(o Outcome) bool {
	return (o.Status >= 500 || o.Panicked) && !o.clientsFault()
}

// Failures is for [Limit.RefundOn]. It reports [ServerErrors] and responses of status
// 400 to 499. Clients can cause those at will, such as by asking for what does not
// exist, and the work it takes is then free for them. Put another limit without a
// refund beside this one.
func Failures(o Outcome) bool {
	return (o.Status >= 400 || o.Panicked) && !o.clientsFault()
}

// Successes is for [Limit.RefundOn]. It reports responses of a status below 400 to
// requests that were neither canceled nor timed out. A login form that refunds them
// counts failed attempts, and those whose client hung up before the response.
//
// An outcome without a status is no success: its charge stays. Code that settles a decision
// itself reports a success by Status 200; see [Decision.Settle].
func Successes(o Outcome) bool {
	return o.Status > 0 && o.Status < 400 && !o.Panicked && !o.Canceled && !o.TimedOut
}

// Canceled is for [Limit.RefundOn]. It reports requests whose client hung up, and those
// that ran into a time-out.
//
// Hanging up is free then: a client can have all the work done that precedes the
// response, hang up, and pay nothing. Use it only if work stops with the client, and put
// another limit without a refund beside this one.
func Canceled(o Outcome) bool { return o.Canceled || o.TimedOut }
