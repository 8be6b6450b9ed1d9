package advice

import "fmt"

// TierFails is called for a tier that can never work, for a reason that names the limit.
func (l *Limit) TierFails(reason string) { l.advisor.say(Tier, reason) }

// TierTooSmall is called for a tier that never holds the cost of a request.
func (l *Limit) TierTooSmall(cost, burst int64) {
	l.advisor.say(Tier, fmt.Sprintf("limit %q: cost %d can never fit: the tier holds at most %d, and denies such requests", l.Name, cost, burst))
}
