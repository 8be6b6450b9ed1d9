package core

// Shadow judges requests by the limit without enforcing it: it is counted, and
// is among the decision's results, but denies nobody and shows in no header. Try
// a new limit with it. In an outage it is left out.
func (l Limit) Shadow() Limit {
	l.shadow = true
	return l
}
