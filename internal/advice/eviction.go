package advice

import (
	"context"
	"time"
)

// StoreAnswers is called for each answer of the store, and looks at the first: the store is to check how its server
// is set up, and its limits are compared with those of other processes from then on.
func (a *Advisor) StoreAnswers() {
	if !a.answered.Load() && !a.answered.Swap(true) { // a swap writes, even if it changes nothing
		a.rivals.begin()
		a.inspect()
	}
}

// inspect advises what the store says of its server.
func (a *Advisor) inspect() {
	eviction := a.registry.Server().Eviction
	if eviction == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		// An error says only that the server does not let us look.
		if problem, err := eviction(ctx); err == nil && problem != "" {
			a.say(Eviction, problem)
		}
	}()
}
