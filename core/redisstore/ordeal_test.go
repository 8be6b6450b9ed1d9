package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// ordeal stands between a store and Redis, and delays or fails round trips. It sees what a store sends with any
// release of go-redis, as hooks of the client do not.
type ordeal struct {
	sender

	// before is called before Redis has run a round trip, and after is
	// called after. Each may delay or fail the round trip, and may be nil.
	before, after func(ctx context.Context) error
}

// undergo has the round trips of a store with one server pass an ordeal. It returns the server's node.
func (s *Store) undergo(o ordeal) *node {
	r, ok := s.route.(*singleRoute)
	if !ok {
		r = &s.route.(*unknownRoute).singleRoute
	}
	o.sender = r.only.client
	r.only.client = o
	return r.only
}

// Undergo is for the other tests of this package: see ordeal.
func (s *Store) Undergo(before func(ctx context.Context) error) { s.undergo(ordeal{before: before}) }

func (o ordeal) Process(ctx context.Context, cmd redis.Cmder) error {
	err := o.around(ctx, func() error { return o.sender.Process(ctx, cmd) })
	if err != nil {
		cmd.SetErr(err)
	}
	return err
}

func (o ordeal) Pipeline() redis.Pipeliner { return &ordealPipeline{o.sender.Pipeline(), o} }

// ordealPipeline passes the ordeal when it is sent.
type ordealPipeline struct {
	redis.Pipeliner
	ordeal ordeal
}

func (p *ordealPipeline) Exec(ctx context.Context) (cmds []redis.Cmder, err error) {
	var answered error // by Redis itself: each command has its own
	err = p.ordeal.around(ctx, func() error {
		cmds, answered = p.Pipeliner.Exec(ctx)
		return nil
	})
	if err == nil {
		return cmds, answered
	}
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return cmds, err
}

func (o ordeal) around(ctx context.Context, run func() error) error {
	if o.before != nil {
		if err := o.before(ctx); err != nil {
			return err
		}
	}
	err := run()
	if o.after != nil && err == nil {
		err = o.after(ctx)
	}
	return err
}
