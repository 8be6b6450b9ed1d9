package seam

// DecisionKey is the key of a context under which the decision nearest to the handler is
// found, a *core.Decision.
type DecisionKey struct{}

// ReservationKey is the key of a context under which the nearest decision that has reserved
// something has its [Reservation].
type ReservationKey struct{}
