package top

import (
	"context"
	"time"
)

// Exchange is how processes see each other's snapshots. redisstore.Store has one:
//
//	top.Config{Exchange: store.Exchange()}
//
// Its methods are called in the background or by [Tracker.Collect], never by a request, and
// return by the end of their contexts.
type Exchange interface {
	// Publish makes a snapshot visible to all instances for ttl. It replaces the former one
	// of the same instance. It must not keep the snapshot's bytes.
	Publish(ctx context.Context, instance string, snapshot []byte, ttl time.Duration) error

	// Collect returns the snapshots of all instances, in any order. Beside an error it
	// returns what it could read.
	Collect(ctx context.Context) (snapshots [][]byte, err error)

	// Agree returns a secret that all instances share: the one that the first of them has
	// proposed. Proposals have 16 bytes.
	Agree(ctx context.Context, proposal []byte) (secret []byte, err error)
}
