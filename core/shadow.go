package core

// Shadow evaluates and counts the limit without enforcing it, to try out a new limit.
// It is part of the decision's results, but denies no request and shows in no header.
// A request that only shadow limits would have denied has [ReasonShadowed]. During an
// outage of the store the limit is left out.
func (l Limit) Shadow() Limit {
	l.shadow = true
	return l
}
