package core

import "errors"

// ErrNoPolicy is the error of [Policies] that have no policy of a name, to be found with errors.Is.
var ErrNoPolicy = errors.New("weblimit: there is no such policy")

// Policies makes limiters of policies that are written in files, not in code: a policy.Set is one.
type Policies interface {
	// Limiter returns a limiter by the policy of that name. It counts in config.Store, and has
	// everything else of config that the policy does not set. It returns an error if it can't work with
	// config, and one that is ErrNoPolicy if there is no such policy.
	//
	// The limiter changes with its policy. So it is for start-up, and stays as long as the Policies: its
	// policy can't be removed. With config.MayEnd the policy can, and [Limiter.Ended] says that it was; that
	// is for programs whose requests name the policy. Policies around others pass config on.
	Limiter(config Config, name string) (*Limiter, error)
}
