package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/quota/internal/accounts"
	"github.com/weblimit/weblimit/quota/internal/delivery"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
	"github.com/weblimit/weblimit/quota/internal/pgledger"
)

// Book keeps what limits have counted, beside the store that decides. It is safe for
// concurrent use. Close it when the process ends.
//
// Locks, the outer ones first: flusher.mu or declaring, both held while the ledger is asked; then line.mu of the opener or of
// tenants; then health.mu. Those of the accounts' table and of tenants' cached numbers are leaves. Requests take only those from
// line.mu on, and hold none while they wait.
type Book struct {
	config   Config
	ledger   ledger.Ledger
	patience patience
	store    bookStore
	restorer counting.Restorer
	rules    accounts.Rules
	table    accounts.Table
	opener   opener
	health   health
	flusher  flusher
	tenants  tenants
	delivery delivery.Desk
	stats    stats
	remove   func() // takes numbers back from the store

	attached map[string]Limit // what processes have declared, by name; nil but for Attach
	refusing *noStore         // the store of an attached book

	declaring sync.Mutex
	declared  []ledger.Declaration // by this process, in the ledger. Guarded by declaring.

	process string // names this process in the ledger
	stop    context.CancelFunc
	running sync.WaitGroup
	closing chan struct{} // has a place for whoever closes the book
	closed  bool          // nothing is left to be written. Owned by whoever has the place.
}

// Open returns a book whose truth is in PostgreSQL. It makes the book's tables, or brings
// them up to date; processes that start together wait for each other. The pool remains the
// caller's, who closes it after the book.
//
// It fails if PostgreSQL does not answer before ctx is done, unless Config.StartWithoutLedger is
// set, and if the role may not make the tables.
func Open(ctx context.Context, pool *pgxpool.Pool, config Config) (*Book, error) {
	if pool == nil {
		return nil, errors.New("weblimit: quota: the pool is nil")
	}
	if err := config.complete(); err != nil {
		return nil, err
	}
	l := pgledger.New(pool, config.Schema, config.Levels)
	err := l.SetUp(ctx)
	if err != nil && (!config.StartWithoutLedger || !pgledger.IsAway(err)) {
		return nil, fmt.Errorf("weblimit: quota: making the tables: %w", err)
	}
	return newBook(config, l, usualPatience, err)
}

// InMemory returns a book whose truth is in the memory of this process, for tests and
// examples. It is lost with the process. It panics if config is invalid.
func InMemory(config Config) *Book {
	if err := config.complete(); err != nil {
		panic(err)
	}
	b, err := newBook(config, memledger.New(config.Levels), endlessPatience, nil)
	if err != nil {
		panic(err)
	}
	return b
}

// makeBook returns a book that does nothing yet. config is complete.
func makeBook(config Config, l ledger.Ledger, p patience) (*Book, error) {
	b := &Book{config: config, ledger: l, patience: p, process: rand.Text(), closing: make(chan struct{}, 1)}
	restorer, ok := counting.RestorerOf(config.Store)
	if !ok {
		return nil, fmt.Errorf("weblimit: quota: Config.Store: a %T can't be told what clients have used: it is no counting.Restorer", config.Store)
	}
	b.restorer = restorer
	b.store = bookStore{Store: config.Store, book: b, registry: config.Store.Registry().View()}
	b.rules.Init(config.Limits, config.Levels)
	b.table.Init(config.MaxAccounts, &b.rules)
	b.health.registry = config.Store.Registry()
	b.opener.book, b.flusher.book = b, b
	b.delivery = delivery.Desk{Ledger: l, Process: b.process, Timeout: config.Timeout, Last: p.last, Report: b.health.registry.Report}
	b.tenants.init(b)
	return b, nil
}

// newBook returns a book with a ledger. config is complete. away says why the ledger is away, or is nil: then it is asked
// nothing yet, since it may not even have tables.
func newBook(config Config, l ledger.Ledger, p patience, away error) (*Book, error) {
	b, err := makeBook(config, l, p)
	if err != nil {
		return nil, err
	}
	if err := config.Store.Registry().OnRegister(b.rules.Register); err != nil {
		return nil, err
	}
	b.addReceivers()
	if away == nil {
		away = b.delivery.Open()
		if away != nil && (!config.StartWithoutLedger || !pgledger.IsAway(away)) {
			return nil, away
		}
	}
	if away != nil {
		b.health.failed(time.Now(), away)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	b.delivery.Start(ctx)
	b.remove = books.Add(config.Store.Registry(), b.numbers)
	b.running.Go(func() { b.flusher.run(ctx) })
	b.running.Go(func() { b.tenants.listen(ctx) })
	return b, nil
}

// Store returns the store to use for limits that are kept in the book, and for those beside
// them. It decides as Config.Store does. The limits that are not kept cost nothing more.
// Check.Account receives the state of the account of a limit that is kept.
//
// Reset of a limit that is kept in the book is an error: what was used stays used. See
// [Book.Adjust].
func (b *Book) Store() store.Store {
	if b.attached != nil {
		return b.refusing
	}
	return &b.store
}

// Close writes what was used and is not written yet, and ends the book's work. Its error says
// that something is not written; it is in the store, and another process of the book finds
// it. Another call then tries again. ctx bounds how long it takes. Close the book after the server has
// stopped: what is charged later is not written.
func (b *Book) Close(ctx context.Context) error {
	select {
	case b.closing <- struct{}{}:
		defer func() { <-b.closing }()
	case <-ctx.Done():
		return fmt.Errorf("weblimit: quota: closing the book: somebody else is at it: %w", context.Cause(ctx))
	}
	if b.closed {
		return nil
	}
	b.stop()
	// What was used first: a receiver that hangs must not keep it from being written.
	if err := errors.Join(b.writeLast(ctx), b.delivery.Close(ctx)); err != nil {
		return fmt.Errorf("weblimit: quota: closing the book: %w", err)
	}
	b.closed = true
	if b.remove != nil {
		b.remove()
	}
	return nil
}

// writeLast writes what is not written, after the flusher has ended.
func (b *Book) writeLast(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		b.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := b.write(ctx); err != nil || b.attached != nil {
		return err
	}
	return b.ledger.Leave(ctx, b.process)
}

// Flush writes what was used until now. A book does so by itself every Config.FlushEvery.
func (b *Book) Flush(ctx context.Context) error {
	if err := b.write(ctx); err != nil {
		return fmt.Errorf("weblimit: quota: writing to the ledger: %w", err)
	}
	return nil
}

// write writes what was used, and which limits this process has.
func (b *Book) write(ctx context.Context) error {
	if err := b.flusher.flush(ctx); err != nil || b.attached != nil {
		return err
	}
	return b.declareLimits(ctx)
}
