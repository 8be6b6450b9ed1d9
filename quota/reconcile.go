package quota

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/quota/internal/accounts"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// Difference is what the store and the ledger say of one account, where they differ.
type Difference struct {
	Usage           // what the ledger says
	Reason   string // why they differ, in a sentence
	Cause    Cause  // the same, for programs
	InStore  int64  // units used, as the store says; 0 if it does not know
	Repaired bool   // this call has repaired it

	// Position is the account's in the store, and Written that of the same generation in the ledger: 0
	// if there is none. A difference that is only on its way is gone as soon as Written has
	// reached Position.
	Position, Written int64

	generation int64
}

// Cause is why the store and the ledger differ.
type Cause string

// The causes of differences.
const (
	// CauseNotFlushed: the store has charged what is not written to the ledger. A process
	// has ended before it could, or will do so within Config.FlushEvery. Reconcile repairs it.
	CauseNotFlushed Cause = "not flushed"

	// CauseForked: the store has lost what is in the ledger, and has charged more since. It
	// was restored from a backup, or a replica took over that had not received everything.
	// Reconcile repairs it: the account goes on with what the ledger says.
	CauseForked Cause = "forked"

	// CauseForgotten: the store does not know the account, or not for sure, since it has started or taken over
	// after it was charged. The next request restores it, with what the ledger says.
	CauseForgotten Cause = "forgotten"

	// CauseBehind: generations of the account that were written late are in the ledger, and not in
	// the store, which can grant them again.
	CauseBehind Cause = "behind"

	// CauseAhead: the store has used more than all generations of the account in the ledger, since units of
	// an earlier one were given back, and that was written late. Reconcile repairs it: the account goes on with
	// what the ledger says.
	CauseAhead Cause = "ahead"

	// CauseUnknownKey: the ledger knows of the account's key only its hash, because the key is
	// too long. Such accounts are not compared.
	CauseUnknownKey Cause = "unknown key"

	// CauseUnknownLimit: this process has no limit of that name, so it can't ask the store.
	CauseUnknownLimit Cause = "unknown limit"
)

// Reconciliation is the result of [Book.Reconcile].
type Reconciliation struct {
	Accounts int // that were compared
	Repaired int
	Left     int // differences that are not repaired
}

// Reconcile compares the store with the ledger, account by account, for the periods of now. It
// calls found, if it is not nil, for each difference; an error of found ends it. With repair it
// also repairs what is safe to: it writes what is not written, and has forked accounts go on with
// what the ledger says. It changes no allowance.
//
// It asks the store for some hundred accounts at a time, beside the requests that it
// serves. While they go on, accounts that are being charged differ for moments.
func (b *Book) Reconcile(ctx context.Context, repair bool, found func(Difference) error) (Reconciliation, error) {
	if _, none := b.config.Store.(*noStore); none {
		return Reconciliation{}, errNoStore
	}
	r, err := b.reconcile(ctx, repair, found)
	if err == nil && repair && b.attached != nil {
		err = b.flusher.flush(ctx) // others do so by themselves
	}
	if err != nil {
		return r, fmt.Errorf("weblimit: quota: reconciling: %w", err)
	}
	return r, nil
}

// reconcileBatch is how many accounts are compared at a time.
const reconcileBatch = 250

// reconciler compares the store with the ledger, once.
type reconciler struct {
	*Book
	repair bool
	found  func(Difference) error
	sum    Reconciliation
}

func (b *Book) reconcile(ctx context.Context, repair bool, found func(Difference) error) (Reconciliation, error) {
	r := &reconciler{Book: b, repair: repair, found: b.stats.counting(found)}
	var after ledger.Account
	for now := time.Now().UnixMicro(); ; {
		page, err := r.page(ctx, now, after)
		if err != nil {
			return r.sum, err
		}
		if len(page) == 0 {
			return r.sum, r.unheard(ctx)
		}
		after = page[len(page)-1].Account
		if err := r.compare(ctx, page); err != nil {
			return r.sum, err
		}
	}
}

// page returns the next accounts that had not ended at a time.
func (r *reconciler) page(ctx context.Context, at int64, after ledger.Account) ([]ledger.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	return r.ledger.Open(ctx, at, after, reconcileBatch)
}

// comparison is what was found of some accounts, and what is under way to repair it.
type comparison struct {
	differences []Difference
	positions   []ledger.Position  // of the store, to be written
	waiting     map[int]*restoring // by index in differences
}

// compare compares some accounts with the store.
//
// The ledger was read before the store is asked. So a store that is ahead is as usual, and one that is behind has lost something.
func (r *reconciler) compare(ctx context.Context, page []ledger.Standing) error {
	c := comparison{waiting: make(map[int]*restoring)}
	asked, checks := r.askable(page, &c)
	views, err := r.views(ctx, checks)
	if err != nil {
		return err
	}
	for i, s := range asked {
		if cause := causeOf(s, &views[i]); cause != "" {
			r.note(&c, s, string(checks[i].Key), &views[i], cause)
		}
	}
	if err := r.write(ctx, c.positions); err != nil {
		return err
	}
	for i, o := range c.waiting {
		if err := o.wait(ctx); err != nil {
			return err
		}
		// What the store has charged is written by then, whether it has gone on or was charged meanwhile.
		c.differences[i].Repaired = o.told || c.differences[i].Cause == CauseNotFlushed
	}
	r.sum.Accounts += len(page)
	return r.tell(c.differences)
}

// askable returns the accounts that the store can be asked for, and how. The others are differences.
func (r *reconciler) askable(page []ledger.Standing, c *comparison) (asked []*ledger.Standing, checks []store.Check) {
	for i := range page {
		s := &page[i]
		key, known := ledger.KeyOf(s.Key)
		k := r.rules.Named(s.Limit)
		switch {
		case !known:
			c.differences = append(c.differences, differenceOf(s, CauseUnknownKey, &accounts.View{}))
		case k == nil:
			d := differenceOf(s, CauseUnknownLimit, &accounts.View{})
			if r.attached != nil {
				d.Reason = r.whyUnknown(s.Limit)
			}
			c.differences = append(c.differences, d)
		default:
			asked, checks = append(asked, s), append(checks, store.Check{Key: key, Rule: r.twinOf(k).Rule})
		}
	}
	return asked, checks
}

// twinOf returns the twin of a limit's own rule.
func (b *Book) twinOf(k *accounts.Kept) *accounts.Twin {
	rule := k.Declared()
	return b.rules.Make(&rule)
}

// note notes a difference, and begins its repair.
func (r *reconciler) note(c *comparison, s *ledger.Standing, key string, v *accounts.View, cause Cause) {
	d, k := differenceOf(s, cause, v), r.rules.Named(s.Limit)
	var o *restoring
	var err error
	switch {
	case !r.repair:
	case cause == CauseNotFlushed && agreesOnceWritten(s, v):
		c.positions = append(c.positions, accounts.PositionIn(k, s.Account, v))
		d.Repaired = true
	case cause == CauseForked:
		o, err = r.opener.fork(r.twinOf(k), key, s.Start, v)
	case cause == CauseNotFlushed || cause == CauseBehind || cause == CauseAhead:
		o, err = r.opener.goOn(r.twinOf(k), key, s.Start, v)
	}
	if o != nil && err == nil {
		c.waiting[len(c.differences)] = o
	}
	c.differences = append(c.differences, d)
}

// write writes what the store has charged.
func (r *reconciler) write(ctx context.Context, positions []ledger.Position) error {
	if len(positions) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	return r.ledger.Flush(ctx, positions)
}

// views asks the store for accounts, some at a time.
func (r *reconciler) views(ctx context.Context, checks []store.Check) ([]accounts.View, error) {
	views := make([]accounts.View, 0, len(checks))
	for part := range slices.Chunk(checks, peekBatch) {
		within, cancel := context.WithTimeout(ctx, r.config.Timeout)
		some, err := r.peek(within, part)
		cancel()
		if err != nil {
			return nil, err
		}
		views = append(views, some...)
	}
	return views, nil
}

// tell counts differences and hands them to found.
func (r *reconciler) tell(differences []Difference) error {
	for _, d := range differences {
		if d.Repaired {
			r.sum.Repaired++
		} else {
			r.sum.Left++
		}
		if err := r.found(d); err != nil {
			return err
		}
	}
	return nil
}

// peekBatch is how many accounts the store is asked for, or told of, in one call.
const peekBatch = store.MaxChecks / 3

// peek asks the store for accounts of several limits and periods. A call names a key and rule
// once, and two periods of a key are two accounts: those are asked for in a call of their own.
func (b *Book) peek(ctx context.Context, checks []store.Check) ([]accounts.View, error) {
	results, told, views := make([]store.Result, len(checks)), make([]store.Account, len(checks)), make([]accounts.View, len(checks))
	for i := range checks {
		checks[i].Account = &told[i]
	}
	for first := 0; first < len(checks); {
		last := first + 1
		for last < len(checks) && (string(checks[last].Key) != string(checks[last-1].Key) || checks[last].Rule.ID() != checks[last-1].Rule.ID()) {
			last++
		}
		if err := b.config.Store.Peek(ctx, checks[first:last], results[first:last]); err != nil {
			return nil, err
		}
		first = last
	}
	for i := range views {
		views[i] = accounts.ViewOf(&results[i], &told[i])
	}
	return views, nil
}

// causeOf returns why the store differs from the ledger, or nothing.
func causeOf(s *ledger.Standing, v *accounts.View) Cause {
	n := counting.Generation(v.Position)
	switch {
	case v.Ends != s.End:
		return "" // the period has ended, or has not begun by the store's clock
	case v.Position == 0:
		return CauseForgotten
	}
	for i := range s.Lives {
		l := &s.Lives[i]
		switch {
		case l.Generation != n:
		case v.Stale && (l.Closed || l.Position >= v.Position):
			if s.Total == v.Used {
				return "" // the next request has it go on with that
			}
			return CauseForgotten
		case l.Closed || l.Position > v.Position || l.Position == v.Position && l.Used != v.Used:
			return CauseForked
		case l.Position < v.Position && (v.Position != n<<ledger.GenerationShift|1 || v.Used != l.Used): // else it has just begun
			return CauseNotFlushed
		case v.Stale:
			return CauseForgotten
		case v.Used < s.Total:
			return CauseBehind
		case v.Used > max(s.Total, 0):
			return CauseAhead
		default:
			return ""
		}
	}
	return CauseNotFlushed // of a generation that the ledger has lost
}

// agreesOnceWritten reports whether the ledger has what the store has used, no less and no more, once the store's state
// is written. If not, units of earlier generations were written late, which the store does not know.
func agreesOnceWritten(s *ledger.Standing, v *accounts.View) bool {
	all := max(v.Used, s.Total) // of a generation that the ledger has lost
	for i := range s.Lives {
		if l := &s.Lives[i]; l.Generation == counting.Generation(v.Position) {
			all = s.Total - l.Used + v.Used
		}
	}
	return max(all, 0) == v.Used
}

func differenceOf(s *ledger.Standing, cause Cause, v *accounts.View) Difference {
	d := Difference{Usage: usageOf(&s.Account, s.Total), Cause: cause, InStore: v.Used, generation: counting.Generation(v.Position)}
	d.Position = v.Position
	for i := range s.Lives {
		if l := &s.Lives[i]; l.Generation == d.generation {
			d.Written = l.Position
		}
	}
	switch cause {
	case CauseNotFlushed:
		d.Reason = fmt.Sprintf("the store has used %d units, of which not all are written to the ledger", v.Used)
	case CauseForked:
		d.Reason = "the store has lost changes that are in the ledger, and was charged since"
	case CauseForgotten:
		d.Reason = "the store does not know the account; its next request restores it"
		if v.Stale {
			d.Reason = "the store has the account from before it started or took over; its next request restores it"
		}
	case CauseBehind:
		d.Reason = fmt.Sprintf("%d units were written late, and the store can grant them again", s.Total-v.Used)
	case CauseAhead:
		d.Reason = fmt.Sprintf("%d units were given back, which was written late, and the store still has them", v.Used-s.Total)
	case CauseUnknownKey:
		d.Reason = "the key is too long to be in the ledger"
	case CauseUnknownLimit:
		d.Reason = "this process has no limit of this name"
	}
	return d
}
