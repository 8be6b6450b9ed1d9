package pgsource

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// leastGap is the time between two looks at the table. Every role of a database may notify every
	// channel, as often as it likes.
	leastGap = 100 * time.Millisecond

	mostPoll = 24 * time.Hour
	// usualSilence is after how long without a notification the connection is asked whether it lives.
	usualSilence = 30 * time.Second
	// mostBackoff bounds the time between two attempts to connect.
	mostBackoff = 30 * time.Second
)

// Watch implements [policy.Source].
func (s *Source) Watch(ctx context.Context, changed func()) {
	told := make(chan struct{}, 1)
	var listening sync.WaitGroup
	listening.Go(func() { s.listen(ctx, told) })
	defer listening.Wait()
	ticker := time.NewTicker(s.config.Poll)
	defer ticker.Stop()
	last, looked := state{}, time.Time{} // so that what was published since Load is seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-told:
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(looked.Add(leastGap))):
			}
		}
		looked = time.Now()
		now, err := s.look(ctx)
		if err != nil {
			continue // what decides now goes on, and PostgreSQL has alarms of its own
		}
		if now != last {
			changed()
		}
		last = now
	}
}

// state is what tells one release from another. Numbers alone don't: a replica that takes over can lack
// the last ones.
type state struct {
	number int64 // -1 if there is none
	hash   string
}

func (s *Source) look(ctx context.Context) (now state, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, s.config.sql("SELECT number, left(sha256, 64) FROM {schema}.release WHERE name = $1 ORDER BY number DESC LIMIT 1"), s.name).Scan(&now.number, &now.hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return state{number: -1}, nil
	}
	return now, err
}

// listen has told hear of releases, by a connection of its own: one of the pool would be missing there.
func (s *Source) listen(ctx context.Context, told chan<- struct{}) {
	backoff := time.Second
	for ctx.Err() == nil {
		began := time.Now()
		_ = s.hear(ctx, told) // the table is looked at in any case
		if time.Since(began) > s.silence {
			backoff = time.Second
		}
		// A fleet that lost its connections together does not come back together.
		pause := time.NewTimer(backoff/2 + rand.N(backoff)) //nolint:gosec // G404: no secret
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
		backoff = min(2*backoff, mostBackoff)
	}
}

// hear listens until its connection fails or ctx ends.
func (s *Source) hear(ctx context.Context, told chan<- struct{}) error {
	of := s.pool.Config()
	config := of.ConnConfig.Copy()
	config.ConnectTimeout = s.timeout
	if of.BeforeConnect != nil { // such as one that sets a fresh password
		if err := of.BeforeConnect(ctx, config); err != nil {
			return err
		}
	}
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = connection.Close(within)
	}()
	tell := func() {
		select {
		case told <- struct{}{}:
		default: // a look is due anyway
		}
	}
	if err := s.within(ctx, func(ctx context.Context) error {
		_, err := connection.Exec(ctx, "LISTEN "+s.config.Schema) // needs no quotes
		return err
	}); err != nil {
		return err
	}
	tell()
	for {
		waiting, cancel := context.WithTimeout(ctx, s.silence)
		notification, err := connection.WaitForNotification(waiting)
		quiet := waiting.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && notification.Payload == s.name:
			tell()
		case err == nil:
		case quiet && pgconn.Timeout(err):
			if err := s.within(ctx, connection.Ping); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (s *Source) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return f(ctx)
}
