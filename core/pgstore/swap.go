package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weblimit/weblimit/core/store"
)

// swapBytes is how long a value of swap is at most: see [store.Server].
const swapBytes = 1024

// swap is [store.Server].Swap. It uses a connection of the pool beside those of checks, and needs no
// permission that the store does not need.
func (s *Store) swap(ctx context.Context, keys, values []string, ttl time.Duration) ([]string, error) {
	ids, states := make([][]byte, len(keys)), make([][]byte, len(keys))
	for i := range keys {
		ids[i], states[i] = append([]byte{byte(swapRecord)}, keys[i]...), []byte(values[i])
	}
	rows, err := s.pool.Query(ctx, s.sql.swapValues, ids, states, int64((ttl+time.Minute-1)/time.Minute), swapBytes)
	if err != nil {
		return nil, s.swapError(err)
	}
	before, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var state []byte
		err := row.Scan(&state)
		return string(state), err
	})
	if err != nil {
		return nil, s.swapError(err)
	}
	return before, nil
}

func (s *Store) swapError(err error) error {
	return &store.Error{Class: classOf(err), Node: s.node, Err: err}
}
