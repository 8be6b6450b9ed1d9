package main

import (
	"context"
	"slices"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/core/store/counting"
)

// keeping is an application's store as this command sees it. A calendar limit that a quota.Book keeps
// has records with a position. The command, which does not have the book, must not make as if it
// could reset them: the book would restore what was used.
type keeping struct{ store.Store }

// twins returns the checks under the rules that books use, and whether any is another.
func twins(checks []store.Check) (all []store.Check, differ bool) {
	all = slices.Clone(checks)
	for i := range all {
		if all[i].Rule.Algorithm != store.Calendar {
			continue
		}
		if twin, err := counting.LedgerOf(all[i].Rule); err == nil {
			all[i].Rule, differ = twin, true
		}
	}
	return all, differ
}

// Peek implements [store.Store]. What is kept in a book is answered as the book's store does.
func (s keeping) Peek(ctx context.Context, checks []store.Check, results []store.Result) error {
	if err := s.Store.Peek(ctx, checks, results); err != nil {
		return err
	}
	all, differ := twins(checks)
	if !differ {
		return nil
	}
	inBooks, accounts := make([]store.Result, len(all)), make([]store.Account, len(all))
	for i := range all {
		all[i].Account = &accounts[i]
	}
	if err := s.Store.Peek(ctx, all, inBooks); err != nil {
		return err
	}
	for i := range inBooks {
		if accounts[i].Position > 0 {
			results[i] = inBooks[i]
			if a := checks[i].Account; a != nil {
				*a = accounts[i]
			}
		}
	}
	return nil
}

// Reset implements [store.Store]. It leaves what is kept as it is.
func (s keeping) Reset(ctx context.Context, checks []store.Check) error {
	results, accounts := make([]store.Result, len(checks)), make([]store.Account, len(checks))
	asked := slices.Clone(checks)
	for i := range asked {
		asked[i].Account = &accounts[i]
	}
	if err := s.Peek(ctx, asked, results); err != nil {
		return err
	}
	var others []store.Check
	var kept books.KeptError
	for i := range checks {
		if accounts[i].Position > 0 {
			kept.Limits = append(kept.Limits, checks[i].Rule.Name)
		} else {
			others = append(others, checks[i])
		}
	}
	if len(others) > 0 {
		if err := s.Store.Reset(ctx, others); err != nil {
			return err
		}
	}
	if len(kept.Limits) > 0 {
		return &kept
	}
	return nil
}
