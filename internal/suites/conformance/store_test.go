package conformance

import (
	"context"
	"net/netip"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// scripted is a store that returns the given results.
type scripted struct {
	core.Store
	results []core.Result
}

func (s *scripted) Take(_ context.Context, _ []core.Check, results []core.Result) error {
	copy(results, s.results)
	return nil
}

func (s *scripted) Peek(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.Take(ctx, checks, results)
}

func (s *scripted) Charge(context.Context, []core.Check, []core.Result) error { return nil }
func (s *scripted) Refund(context.Context, []core.Check, []core.Result) error { return nil }
func (s *scripted) Renew(context.Context, []core.Check, []core.Result) error  { return nil }
func (s *scripted) Reset(context.Context, []core.Check) error                 { return nil }

// request is a keyfuncs.Request that holds nothing but values.
type request struct{ values map[any]any }

var _ keyfuncs.Request = request{}

func (r request) Context() context.Context          { return context.Background() }
func (r request) Method() string                    { return "GET" }
func (r request) Path() string                      { return "/" }
func (r request) Route() (string, bool)             { return "/", true }
func (r request) Header(string, int) (string, bool) { return "", false }
func (r request) Cookie(string, int) (string, bool) { return "", false }
func (r request) Query(string, int) (string, bool)  { return "", false }
func (r request) Peer() netip.Addr                  { return netip.Addr{} }
func (r request) Value(key any) any                 { return r.values[key] }
