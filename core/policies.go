package core

// Policies makes limiters of policies that are written in files, not in code: a policy.Set is one.
type Policies interface {
	// Limiter returns a limiter by the policy of that name. It counts in config.Store, and has
	// everything else of config that the policy does not set. It returns an error if there is no
	// such policy, or if it can't work with config.
	//
	// The limiter changes with its policy. So it is for start-up: it stays as long as the Policies.
	Limiter(config Config, name string) (*Limiter, error)
}
