package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core/store"
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

func (b *Book) reconcile(ctx context.Context, repair bool, found func(Difference) error) (Reconciliation, error) {
	found = b.stats.counting(found)
	var sum Reconciliation
	var after ledger.Account
	now := time.Now().UnixMicro()
	for {
		within, cancel := context.WithTimeout(ctx, b.config.Timeout)
		page, err := b.ledger.Open(within, now, after, reconcileBatch)
		cancel()
		if err != nil {
			return sum, err
		}
		if len(page) == 0 {
			err := b.unheard(ctx, repair, found, &sum)
			return sum, err
		}
		after = page[len(page)-1].Account
		if err := b.compare(ctx, page, repair, found, &sum); err != nil {
			return sum, err
		}
	}
}

// compare compares some accounts with the store.
func (b *Book) compare(ctx context.Context, page []ledger.Standing, repair bool, found func(Difference) error, sum *Reconciliation) error {
	var asked []*ledger.Standing
	var checks []store.Check
	var differences []Difference
	for i := range page {
		s := &page[i]
		cause := Cause("")
		key, known := ledger.KeyOf(s.Key)
		k := b.rules.named(s.Limit)
		switch {
		case !known:
			cause = CauseUnknownKey
		case k == nil:
			cause = CauseUnknownLimit
		default:
			rule := k.declared()
			asked, checks = append(asked, s), append(checks, store.Check{Key: key, Rule: b.rules.make(&rule).rule})
			continue
		}
		d := differenceOf(s, cause, &view{})
		if cause == CauseUnknownLimit && b.attached != nil {
			d.Reason = b.whyUnknown(s.Limit)
		}
		differences = append(differences, d)
	}
	views := make([]view, 0, len(checks))
	for first := 0; first < len(checks); first += store.MaxChecks / 3 {
		last := min(first+store.MaxChecks/3, len(checks))
		within, cancel := context.WithTimeout(ctx, b.config.Timeout)
		part, err := b.peek(within, checks[first:last])
		cancel()
		if err != nil {
			return err
		}
		views = append(views, part...)
	}
	var positions []ledger.Position
	waiting := make(map[int]*restoring) // by index in differences
	for i, s := range asked {
		v := &views[i]
		cause := causeOf(s, v)
		if cause == "" {
			continue
		}
		d := differenceOf(s, cause, v)
		if repair {
			k := b.rules.named(s.Limit)
			switch {
			case cause == CauseNotFlushed && agreesOnceWritten(s, v):
				positions = append(positions, positionIn(k, s.Account, v))
				d.Repaired = true
			case cause == CauseNotFlushed || cause == CauseForked || cause == CauseBehind || cause == CauseAhead:
				rule := k.declared()
				t := b.rules.make(&rule)
				var o *restoring
				var err error
				if cause == CauseForked {
					o, err = b.opener.fork(t, string(checks[i].Key), s.Start, v)
				} else {
					o, err = b.opener.goOn(t, string(checks[i].Key), s.Start, v)
				}
				if err == nil {
					waiting[len(differences)] = o
				}
			}
		}
		differences = append(differences, d)
	}
	if len(positions) > 0 {
		within, cancel := context.WithTimeout(ctx, b.config.Timeout)
		err := b.ledger.Flush(within, positions)
		cancel()
		if err != nil {
			return err
		}
	}
	for i, o := range waiting {
		if err := o.wait(ctx); err != nil {
			return err
		}
		// What the store has charged is written by then, whether it has gone on or was charged meanwhile.
		differences[i].Repaired = o.told || differences[i].Cause == CauseNotFlushed
	}
	sum.Accounts += len(page)
	return sum.tell(differences, found)
}

// tell counts differences and hands them to found, if there is one.
func (sum *Reconciliation) tell(differences []Difference, found func(Difference) error) error {
	for _, d := range differences {
		if d.Repaired {
			sum.Repaired++
		} else {
			sum.Left++
		}
		if found != nil {
			if err := found(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// peek asks the store for accounts of several limits and periods. A call names a key and rule
// once, and two periods of a key are two accounts: those are asked for in a call of their own.
func (b *Book) peek(ctx context.Context, checks []store.Check) ([]view, error) {
	results, accounts, views := make([]store.Result, len(checks)), make([]store.Account, len(checks)), make([]view, len(checks))
	for i := range checks {
		checks[i].Account = &accounts[i]
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
		views[i] = viewOf(&results[i], &accounts[i])
	}
	return views, nil
}

// causeOf returns why the store differs from the ledger, or nothing.
func causeOf(s *ledger.Standing, v *view) Cause {
	n := store.Generation(v.Position)
	switch {
	case v.ends != s.End:
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
func agreesOnceWritten(s *ledger.Standing, v *view) bool {
	all := max(v.Used, s.Total) // of a generation that the ledger has lost
	for i := range s.Lives {
		if l := &s.Lives[i]; l.Generation == store.Generation(v.Position) {
			all = s.Total - l.Used + v.Used
		}
	}
	return max(all, 0) == v.Used
}

func differenceOf(s *ledger.Standing, cause Cause, v *view) Difference {
	d := Difference{Usage: usageOf(&s.Account, s.Total), Cause: cause, InStore: v.Used, generation: store.Generation(v.Position)}
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
