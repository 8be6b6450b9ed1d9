package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// stands is the store of a client's limiters: it holds nothing but what is known of outages.
type stands struct{ store.Base }

var _ core.Store = (*stands)(nil)

var errNoStore = errors.New("weblimit: the limits are those of a service: ask it")

// Take implements [core.Store]: it returns an error, as all methods do.
func (*stands) Take(context.Context, []core.Check, []core.Result) error { return errNoStore }

// Peek implements [core.Store].
func (*stands) Peek(context.Context, []core.Check, []core.Result) error { return errNoStore }

// Charge implements [core.Store].
func (*stands) Charge(context.Context, []core.Check, []core.Result) error { return errNoStore }

// Refund implements [core.Store].
func (*stands) Refund(context.Context, []core.Check, []core.Result) error { return errNoStore }

// Renew implements [core.Store].
func (*stands) Renew(context.Context, []core.Check, []core.Result) error { return errNoStore }

// Reset implements [core.Store].
func (*stands) Reset(context.Context, []core.Check) error { return errNoStore }

// Block implements [core.Store].
func (*stands) Block(context.Context, []core.Check, time.Duration) error { return errNoStore }

// Unblock implements [core.Store].
func (*stands) Unblock(context.Context, []core.Check) error { return errNoStore }

// Blocks implements [core.Store].
func (*stands) Blocks(context.Context, []*core.Rule) iter.Seq2[store.Blocked, error] {
	return func(yield func(store.Blocked, error) bool) { yield(store.Blocked{}, errNoStore) }
}
