package quota

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/pgledger"
)

// ErrNoBook says that a database has no book under Config.Schema.
var ErrNoBook = pgledger.ErrNoBook

// errAttached is that of the store of an attached book.
var errAttached = errors.New("weblimit: quota: this book is attached, for tools, and keeps nothing: use Open")

// errNoStore is that of an attached book without a store.
var errNoStore = errors.New("weblimit: quota: the book was attached without a store")

// Attach returns a book for tools, such as commands and back offices: it reads usage, statements and
// deliveries, reconciles, and changes plans, credits and adjustments. Its limits are those that
// processes have declared in the ledger.
//
// It makes no tables and runs nothing in the background: it is no process of the book, so it writes
// nothing but what is asked of it, and delivers no notices. A role that may only read can attach.
// Its Store answers with an error, and limiters can't be made on it. Config.Store may be nil, and
// Reconcile fails then.
//
// The error is [ErrNoBook] if there are no tables. A limit whose periods this machine can't compute
// is no error: see [Book.Limits].
func Attach(ctx context.Context, pool *pgxpool.Pool, config Config) (*Book, error) {
	if pool == nil {
		return nil, errors.New("weblimit: quota: the pool is nil")
	}
	if len(config.Notices) > 0 || len(config.Exports) > 0 {
		return nil, errors.New("weblimit: quota: an attached book delivers nothing: leave out Config.Notices and Config.Exports")
	}
	if config.Store == nil {
		config.Store = &noStore{err: errNoStore}
	}
	if err := config.complete(); err != nil {
		return nil, err
	}
	l := pgledger.New(pool, config.Schema, config.Levels)
	if err := l.Check(ctx); err != nil {
		return nil, err
	}
	return attach(ctx, config, l)
}

// attach returns an attached book with a ledger. config is complete.
func attach(ctx context.Context, config Config, l ledger.Ledger) (*Book, error) {
	b, err := makeBook(config, l, endlessPatience) // no request waits for it
	if err != nil {
		return nil, err
	}
	declarations, err := l.Declarations(ctx)
	if err != nil {
		return nil, fmt.Errorf("weblimit: quota: reading the limits: %w", err)
	}
	b.attached = make(map[string]Limit)
	for i := range declarations {
		d := &declarations[i]
		rule, err := d.Rule()
		if err == nil && b.rules.Keeps(&rule) {
			err = b.rules.Attach(&rule, d.Keys)
		}
		b.attached[d.Name] = Limit{Name: d.Name, Keys: d.Keys, PerTenant: d.PerTenant, Declared: d.At, Err: err}
	}
	b.refusing = &noStore{err: errAttached}
	if err := b.refusing.Registry().OnRegister(func(store.Declaration) error { return errAttached }); err != nil {
		return nil, err
	}
	b.stop = func() {}
	return b, nil
}

// noStore is a store that answers nothing.
type noStore struct {
	store.Base
	err error
}

func (s *noStore) Take(context.Context, []store.Check, []store.Result) error   { return s.err }
func (s *noStore) Peek(context.Context, []store.Check, []store.Result) error   { return s.err }
func (s *noStore) Charge(context.Context, []store.Check, []store.Result) error { return s.err }
func (s *noStore) Refund(context.Context, []store.Check, []store.Result) error { return s.err }
func (s *noStore) Renew(context.Context, []store.Check, []store.Result) error  { return s.err }
func (s *noStore) Reset(context.Context, []store.Check) error                  { return s.err }
func (s *noStore) Block(context.Context, []store.Check, time.Duration) error   { return s.err }
func (s *noStore) Unblock(context.Context, []store.Check) error                { return s.err }

// Restore implements [counting.Restorer].
func (s *noStore) Restore(context.Context, []store.Check, []counting.Restoration, []store.Result) error {
	return s.err
}

// Blocks implements [store.Store].
func (s *noStore) Blocks(context.Context, []*store.Rule) iter.Seq2[store.Blocked, error] {
	return func(yield func(store.Blocked, error) bool) { yield(store.Blocked{}, s.err) }
}
