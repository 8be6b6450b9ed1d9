package quota

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/quota/internal/accounts"
)

// bookStore is the store of a book.
type bookStore struct {
	store.Store // Config.Store
	book        *Book
	registry    *store.Registry // a view, by which limiters on this store are told from those on Config.Store
}

// Registry implements [store.Store].
func (s *bookStore) Registry() *store.Registry { return s.registry }

// call is a call to the store with the twins of rules.
type call struct {
	checks   []store.Check
	twins    []*accounts.Twin // of the checks; nil for those that are not kept
	accounts []store.Account  // of the checks that are kept

	// For the checks that are asked for again:
	again   []store.Check
	results []store.Result
	index   []int // in checks
}

var calls = sync.Pool{New: func() any { return new(call) }}

// maxUnknown bounds how often a call is made again because the store does not know an
// account: each time something has happened in between, such as the end of a period.
const maxUnknown = 4

// with returns a call with the checks' twins, or nil if none is kept.
func (s *bookStore) with(checks []store.Check) *call {
	n := slices.IndexFunc(checks, func(c store.Check) bool { return c.Rule != nil && c.Rule.Algorithm == store.Calendar })
	if n < 0 {
		return nil
	}
	c := calls.Get().(*call)
	c.checks = append(c.checks[:0], checks...)
	c.twins = c.twins[:0]
	c.accounts = slices.Grow(c.accounts[:0], len(checks))[:len(checks)]
	for i := range c.accounts {
		c.accounts[i] = untold
	}
	found := false
	for i := range c.checks {
		t := s.book.rules.Twin(c.checks[i].Rule)
		if t != nil {
			c.checks[i].Rule, c.checks[i].Account = t.Rule, &c.accounts[i]
			found = true
		}
		c.twins = append(c.twins, t)
	}
	if !found {
		c.release()
		return nil
	}
	return c
}

// untold is what an account holds until the store has set it.
var untold = store.Account{Position: -1}

// end hands the accounts to a caller that asks for them, and releases the call.
func (c *call) end(checks []store.Check) {
	for i, t := range c.twins {
		if a := checks[i].Account; a != nil && t != nil && c.accounts[i] != untold {
			*a = c.accounts[i]
		}
	}
	c.release()
}

// release makes the call free to be used again. It keeps no key.
func (c *call) release() {
	clear(c.checks)
	clear(c.twins)
	clear(c.again)
	calls.Put(c)
}

// unknown reports whether the store does not know the account of check i.
func (c *call) unknown(i int, results []store.Result) bool {
	return c.twins[i] != nil && results[i].Unknown
}

// note remembers the states of the accounts that the store has told.
func (s *bookStore) note(c *call, results []store.Result) {
	for i, t := range c.twins {
		if t != nil && c.accounts[i].Position > 0 && !c.accounts[i].Stale {
			v := accounts.ViewOf(&results[i], &c.accounts[i])
			s.book.table.Note(t, c.checks[i].Key, &v)
		}
	}
}

// Take implements [store.Store].
func (s *bookStore) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	c := s.with(checks)
	if c == nil {
		return s.Store.Take(ctx, checks, results)
	}
	defer c.end(checks)
	for n := 0; ; n++ {
		if err := s.Store.Take(ctx, c.checks, results); err != nil {
			return err
		}
		missing, others := c.missing(results)
		if missing == 0 {
			break
		}
		if others {
			if denied, err := s.takeOthers(ctx, c, results); denied || err != nil {
				if err == nil {
					c.count(results)
				}
				return err
			}
		}
		if err := s.restore(ctx, c, results, n); err != nil {
			return err
		}
	}
	s.note(c, results)
	s.look(ctx, c, results)
	c.count(results)
	return nil
}

// count counts the units of a request that was decided, for metrics.
func (c *call) count(results []store.Result) {
	allowed := true
	for i := range c.checks {
		allowed = allowed && !counting.IsDenial(&c.checks[i], &results[i])
	}
	for i, t := range c.twins {
		switch {
		case t == nil || c.checks[i].Cost == 0 || results[i].PassedOver:
		case allowed && results[i].Allowed:
			t.Kept.Granted.Add(c.checks[i].Cost)
		case counting.IsDenial(&c.checks[i], &results[i]):
			t.Kept.Denied.Add(c.checks[i].Cost)
		}
	}
}

// missing returns how many accounts of checks with costs the store does not know, because
// of which it has done nothing, and whether an enforced check was denied anyway.
func (c *call) missing(results []store.Result) (n int, denied bool) {
	for i := range c.checks {
		switch {
		case c.checks[i].Cost > 0 && c.unknown(i, results):
			n++
		case counting.IsDenial(&c.checks[i], &results[i]):
			denied = true
		}
	}
	return n, denied
}

// takeOthers decides a call without the accounts that the store does not know, since another
// limit denies it: then the ledger need not be asked, and has no account for each key that
// somebody makes up. It returns false if the call is to be made again.
func (s *bookStore) takeOthers(ctx context.Context, c *call, results []store.Result) (denied bool, err error) {
	c.collect(func(i int) bool { return !c.anyUnknownIn(i, results) }, results)
	if err := s.Store.Take(ctx, c.again, c.results); err != nil {
		return true, err
	}
	for i := range c.again {
		denied = denied || counting.IsDenial(&c.again[i], &c.results[i])
	}
	if !denied { // it fits now
		// It was charged, so this must not end with the request.
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.book.config.Timeout)
		defer cancel()
		return false, s.Store.Refund(within, c.again, c.results)
	}
	c.spread(results)
	c.assume(results)
	counting.PassOver(c.checks, results)
	s.note(c, results)
	return true, nil
}

// assume answers for accounts that neither the store nor the ledger was asked about, where the
// answer decides nothing: nothing is known against them.
func (c *call) assume(results []store.Result) {
	for i := range c.checks {
		if c.unknown(i, results) {
			r, burst := &results[i], c.checks[i].Rule.Burst
			r.Allowed, r.Remaining, r.RetryAfter, r.Window = c.checks[i].Cost <= burst, burst, 0, r.ResetAfter
		}
	}
}

// anyUnknownIn reports whether the store does not know the account of check i or of one of its alternatives.
func (c *call) anyUnknownIn(i int, results []store.Result) bool {
	start, end := counting.ChoiceOf(c.checks, i)
	for k := start; k < end; k++ {
		if c.unknown(k, results) {
			return true
		}
	}
	return false
}

// collect sets again, results and index to the checks that f selects.
func (c *call) collect(f func(i int) bool, results []store.Result) int {
	c.again, c.results, c.index = c.again[:0], c.results[:0], c.index[:0]
	for i := range c.checks {
		if f(i) {
			check := c.checks[i]
			check.Or = check.Or && len(c.index) > 0 && c.index[len(c.index)-1] == i-1
			c.again, c.results, c.index = append(c.again, check), append(c.results, results[i]), append(c.index, i)
		}
	}
	return len(c.again)
}

// Peek implements [store.Store].
func (s *bookStore) Peek(ctx context.Context, checks []store.Check, results []store.Result) error {
	c := s.with(checks)
	if c == nil {
		return s.Store.Peek(ctx, checks, results)
	}
	defer c.end(checks)
	for n := 0; ; n++ {
		if err := s.Store.Peek(ctx, c.checks, results); err != nil {
			return err
		}
		if !c.anyUnknown(results) {
			break
		}
		if err := s.restore(ctx, c, results, n); err != nil {
			return err
		}
	}
	s.note(c, results)
	return nil
}

func (c *call) anyUnknown(results []store.Result) bool {
	for i := range c.checks {
		if c.unknown(i, results) {
			return true
		}
	}
	return false
}

// look sets the results of checks without cost whose accounts the store did not know. The
// other checks of the call are charged, so an error must not undo the answer.
func (s *bookStore) look(ctx context.Context, c *call, results []store.Result) {
	if !c.anyUnknown(results) {
		return
	}
	for n := 0; c.anyUnknown(results); n++ {
		c.collect(func(i int) bool { return c.unknown(i, results) }, results)
		if s.restore(ctx, c, results, n) != nil || s.Store.Peek(ctx, c.again, c.results) != nil {
			c.assume(results)
			break
		}
		c.spread(results)
	}
	counting.PassOver(c.checks, results)
}

// spread sets results to those of the checks that were asked for again.
func (c *call) spread(results []store.Result) {
	for n, i := range c.index {
		results[i] = c.results[n]
	}
}

// Charge implements [store.Store].
func (s *bookStore) Charge(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.settle(ctx, checks, results, s.Store.Charge, func(r *store.Result) bool { return r.Unknown })
}

// Refund implements [store.Store].
func (s *bookStore) Refund(ctx context.Context, checks []store.Check, results []store.Result) error {
	// An account that the store does not know is left as it was, and any other is not Charged any more.
	return s.settle(ctx, checks, results, s.Store.Refund, func(r *store.Result) bool { return r.Unknown && r.Charged })
}

// settle calls f, Charge or Refund, which leaves out accounts that the store does not know, and
// does again with those that were left out.
func (s *bookStore) settle(ctx context.Context, checks []store.Check, results []store.Result,
	f func(context.Context, []store.Check, []store.Result) error, leftOut func(*store.Result) bool,
) error {
	c := s.with(checks)
	if c == nil {
		return f(ctx, checks, results)
	}
	defer c.end(checks)
	if err := f(ctx, c.checks, results); err != nil {
		return err
	}
	s.note(c, results)
	for n := 0; ; n++ {
		left := func(i int) bool { return c.twins[i] != nil && leftOut(&results[i]) }
		if c.collect(left, results) == 0 {
			return nil
		}
		if err := s.restore(ctx, c, results, n); err != nil {
			return &store.Undone{Checks: slices.Clone(c.index), Err: err}
		}
		if err := f(ctx, c.again, c.results); err != nil {
			return undone(c.index, err)
		}
		c.spread(results)
		s.note(c, results)
	}
}

// undone returns the error of a call for some checks as that of the call for all.
func undone(index []int, err error) error {
	var u *store.Undone
	if !errors.As(err, &u) {
		return err
	}
	mapped := make([]int, len(u.Checks))
	for n, i := range u.Checks {
		mapped[n] = index[i]
	}
	return &store.Undone{Checks: mapped, Err: u.Err}
}

// Reset implements [store.Store]. It resets the limits that are not kept. Its error is a
// [books.KeptError] if there are others.
func (s *bookStore) Reset(ctx context.Context, checks []store.Check) error {
	var others []store.Check
	var kept books.KeptError
	for i := range checks {
		if rule := checks[i].Rule; s.book.rules.Twin(rule) == nil {
			others = append(others, checks[i])
		} else if !slices.Contains(kept.Limits, rule.Name) {
			kept.Limits = append(kept.Limits, rule.Name)
		}
	}
	if len(kept.Limits) == 0 {
		return s.Store.Reset(ctx, checks)
	}
	if len(others) > 0 {
		if err := s.Store.Reset(ctx, others); err != nil {
			return err
		}
	}
	return &kept
}

// restore tells the store what the ledger knows of the accounts that it does not know. n is
// how often that was done for this call.
func (s *bookStore) restore(ctx context.Context, c *call, results []store.Result, n int) error {
	if n >= maxUnknown {
		return &store.Error{Class: ClassLedger, Err: errors.New("the store keeps forgetting what clients have used")}
	}
	var waiting [8]*restoring
	all := waiting[:0]
	for i := range c.checks {
		if c.unknown(i, results) {
			v := accounts.ViewOf(&results[i], c.checks[i].Account)
			r, err := s.book.opener.request(c.twins[i], c.checks[i].Key, &v)
			if err != nil {
				return s.book.opener.failed(err)
			}
			all = append(all, r)
		}
	}
	for _, r := range all {
		if err := r.wait(ctx); err != nil {
			var e *store.Error
			if errors.As(err, &e) { // of the store, which was to be told
				return err
			}
			return s.book.opener.failed(err)
		}
	}
	return nil
}
