package core

// Shadow evaluates and counts the limit without enforcing it, to try out a new limit.
// It is part of the decision's results, but denies no request and shows in no header.
// A request that only shadow limits would have denied has [ReasonShadowed]. The limit's
// [LimitResult] says so to observers; its Reason is set where the limit would have denied the
// request without asking the store, such as [ReasonMissingKey] under [DenyRequest]. During an
// outage of the store the limit is left out, but for such requests.
func (l Limit) Shadow() Limit {
	l.shadow = true
	return l
}
