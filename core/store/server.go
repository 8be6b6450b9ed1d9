package store

import (
	"context"
	"time"
)

// Server is what only a store knows of where its state is. Its zero value is that of a store which says nothing.
type Server struct {
	// InProcess says that the store counts for this process alone, so that n processes
	// allow n times its limits. Adapters then refuse to run in a server that starts further
	// processes, such as Fiber's Prefork. A store in memory sets it; one that processes share does not.
	InProcess bool

	// Buckets returns how many buckets the store holds in this process, for metrics. Nil for a store that holds
	// none here.
	Buckets func() int

	// Eviction says, in words for an operator, why the server may forget what clients have used when its memory is full. It
	// returns "" if it does not, and an error if it could not look. Limiters call it once, in the background, after
	// the store has answered for the first time. Nil for a store that never does.
	Eviction func(ctx context.Context) (problem string, err error)

	// Swap stores values that all processes on the server see, each under its key, for ttl. It
	// returns those that were there before, "" where there was none, by whichever process. Keys have up to
	// 64 bytes, values up to 1024, and there are up to 100. Of what others have written, no more than the first
	// 1024 bytes leave the server. By it limiters find out that other processes have limits of the same
	// names with other numbers, in the background, every few minutes. A store that processes share sets it.
	Swap func(ctx context.Context, keys, values []string, ttl time.Duration) (before []string, err error)
}

// SetServer records what the store says of itself. A store calls it when it is made.
func (r *Registry) SetServer(s Server) {
	r = r.Root()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = s
}

// Server returns what the store has said of itself.
func (r *Registry) Server() Server {
	r = r.Root()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server
}
