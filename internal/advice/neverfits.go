package advice

import "fmt"

// NeverFits is called if CostBy or EstimateBy returned a cost that the limit never has room for.
// A limit that is scaled may have room later.
func (l *Limit) NeverFits(cost, burst int64) {
	if !l.Scaled && !l.costSaid.Swap(true) {
		l.advisor.say(NeverFits, fmt.Sprintf("limit %s: CostBy or EstimateBy returned %d, and the limit never has room for more than %d: such requests are always denied, without Retry-After; bound the cost, or raise the limit", l.Name, cost, burst))
	}
}
