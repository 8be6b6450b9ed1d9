// Package seam passes from core to core/adapter what adapters need and users do not: so it
// need not be exported from core, where it would stand among the names that users read.
// It knows neither package.
package seam

// The functions of core, which sets them when it is initialized. Their types have names of
// core, so they are stored as any; core/adapter asserts each of them once, when it is
// initialized, and a call then takes one indirection.
var (
	Decide         any // func(*core.Limiter, string, keyfuncs.Request, *core.Decision, []core.LimitResult)
	NewCall        any // func() any: working memory for DecideIn
	DecideIn       any // func(*core.Limiter, any, string, keyfuncs.Request, *core.Decision, []core.LimitResult)
	SetHeaders     any // func(*core.Decision, core.Header, *HeaderRoom)
	Limits         any // func(*core.Limiter) int
	InProcess      any // func(*core.Limiter) bool
	Settles        any // func(*core.Limiter) bool
	Reserved       any // func(*core.Decision) bool
	ReadsOutcome   any // func(*core.Decision) bool
	Reservation    any // func(*core.Decision) any
	Begin          any // func(*core.Load, keyfuncs.Request) Work
	Suits          any // func(*core.Limiter, string, []string) error
	Prepare        any // func(*core.Config) error
	Drain          any // func(*core.Config, context.Context) error
	Guard          any // func(*core.Config, []core.Limit) (*core.Limiter, error)
	DecideGuard    any // func(*core.Limiter, string, keyfuncs.Request, string, int64) core.Decision
	Live           any // func(*core.Limiter) bool
	NewLive        any // func(core.Config) (*core.Limiter, error)
	Replace        any // func([]*core.Limiter, []core.Config) error
	Ended          any // func(*core.Limiter) bool
	Refuse         any // func(*core.Limiter, bool)
	LetEnd         any // func(*core.Config)
	MayEnd         any // func(core.Config) bool
	ValidateConfig any // func(core.Config) error
	Together       any // func(context.Context, string, time.Duration, []adapter.Ask) error
	PeekTogether   any // func(context.Context, time.Duration, []adapter.Ask) error
	SettleHeld     any // func(*core.Limiter, []adapter.Held, time.Duration, bool, core.Outcome)
	NewRemote      any // func(core.Config, func(context.Context, adapter.Question) (adapter.Verdict, error)) (*core.Limiter, error)
	NewCatalog     any // func(core.Config, *core.Limiter) (*core.Limiter, error)
	DecideSome     any // func(*core.Limiter, context.Context, time.Duration, bool, int, func(int, *core.Check) (int, uint8), *core.Decision)
	GiveBackSome   any // func(*core.Limiter, context.Context, time.Duration, int, func(int, *core.Check) (int, uint8)) ([]core.Result, error)
	ForStore       any // func(core.Limit, func(core.Store) error) core.Limit: a limiter's store is asked about before it is made; nil for a fallback in memory
	LowerRule      any // func(core.Limit) (core.Rule, error); for tests of stores
	Local          any // func(core.Store) core.Store: what decides in this process while the store does not answer
)

// DecisionKey is the key of a context under which the decision nearest to the handler is
// found, a *core.Decision.
type DecisionKey struct{}

// ReservationKey is the key of a context under which the nearest decision that has reserved
// something has its reservation.
type ReservationKey struct{}
