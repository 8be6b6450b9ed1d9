package core

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Observer hears of everything that a limiter decides: for metrics, traces, logs and bills.
// Config.Observe sets it; [Observers] makes one of several. Embed a [NopObserver] and write
// only the methods that you need: Observer may get further methods.
//
// Its methods run within requests, several at once, and must not block. They must not ask a
// limiter that they observe: it would call them again, without end. One that panics
// breaks nothing: the panic is recovered and logged once, as advice WL009, and only what
// the observer would have noted is lost.
type Observer interface {
	// Attached is called by [New] for each limiter that has this observer, before it decides
	// anything. Limiters can be made for a short time, so hold them by weak pointers.
	Attached(l *Limiter)

	// Decided is called once for each decision of [Limiter.Allow], [Limiter.AllowKey] and
	// the adapters, when it is final: after a request has waited for its turn, and before its
	// handler runs. Bypassed requests, invalid costs and decisions without the store, in an
	// outage, are decisions too. Peek decides nothing, a limiter is not asked about
	// requests that an adapter's Skip lets through, and a decision that a panic ends, of a CostBy
	// for example, is none.
	//
	// ctx is that of the request, or of AllowKey. o and what it refers to are valid until
	// Decided returns; strings may alias a buffer of the framework. Copy what is kept.
	Decided(ctx context.Context, o *Observation)

	// Settled is called when the store has been told, or will not be told, of a change to what an allowed
	// decision has charged: by [Limit.RefundOn], [Spend] and the end of a request that held
	// slots. It is called in the background, often after the response.
	Settled(s Settlement)

	// StoreEvent is called for each event of Config.Store, as OnEvent of the store is: once,
	// however many limiters on the store have this observer, provided it is of a
	// comparable type. Events that only observers hear of are still logged.
	StoreEvent(e Event)
}

// NopObserver is an [Observer] that does nothing. Embed it in yours, which then has every method
// of Observer, those of later versions included.
type NopObserver struct{}

// Attached implements [Observer].
func (NopObserver) Attached(*Limiter) {}

// Decided implements [Observer].
func (NopObserver) Decided(context.Context, *Observation) {}

// Settled implements [Observer].
func (NopObserver) Settled(Settlement) {}

// StoreEvent implements [Observer].
func (NopObserver) StoreEvent(Event) {}

// Observation is a decision as an [Observer] sees it. In logs it is the decision, how it was
// asked for and how long it took; see [Observation.LogValue].
type Observation struct {
	// Decision is a copy of the decision, for reading. Its Results have what each limit said,
	// those in shadow mode included: one that is not Allowed would have denied the request.
	Decision *Decision

	// Adapter is which middleware asked: "gin", "echo", "fiber", "chi" or "nethttp". It is
	// "" for Allow and AllowKey.
	Adapter string

	// Method is that of the request as the client has sent it, and "" for AllowKey. Clients can
	// make up any number of methods: let a metric count those that you don't know as one.
	Method string

	// CheckTime is how long the store took, all its checks for this decision together. It is 0
	// if the store was not asked.
	CheckTime time.Duration

	// CheckStart is when the store was first asked, and CheckEnd when it last answered or
	// failed, for a span of a trace. In between, a request that waits for its turn may have
	// waited, and is asked about several times: then CheckTime is less. Both are zero if
	// CheckTime is 0.
	CheckStart, CheckEnd time.Time

	// WaitTime is how long the request waited for its turn.
	WaitTime time.Duration

	request keyfuncs.Request // nil for AllowKey
	call    *call            // nil if no limit was asked
}

// Route returns the template of the route that is going to answer, such as "/users/:id". It
// is "" if there is none, if that is not known where the limiter stands, and for
// AllowKey. Some adapters have to ask the router for it, which takes a moment.
func (o *Observation) Route() string {
	if o.request == nil {
		return ""
	}
	route, known := o.request.Route()
	if !known {
		return ""
	}
	return route
}

// Binding returns the index of the result that matters most to the client, for Key and Cost. It
// returns false if there is none: see [Decision.Binding].
func (o *Observation) Binding() (i int, ok bool) {
	// Not by Decision.Binding, which copies the result.
	if o.Decision.limiter == nil || o.Decision.binding < 0 {
		return 0, false
	}
	return int(o.Decision.binding), true
}

// Limit returns the name of the limit that the decision is due to, as a label of metrics. It is
// that of [Decision.Binding] if there is one. Otherwise it is the limit whose key is missing
// or ambiguous or whose cost is invalid, or in an outage the first limit whose policy denied
// or allowed the request. It is "" if no limit decided: for a bypass, for an invalid cost of
// AllowKey, or if only limits in shadow mode applied.
func (o *Observation) Limit() string {
	results := o.Decision.Results()
	if binding, ok := o.Binding(); ok {
		return results[binding].Rule.Name
	}
	switch o.Decision.Reason {
	case ReasonMissingKey, ReasonAmbiguousKey, ReasonInvalidCost:
		if len(results) == 1 {
			return results[0].Rule.Name
		}
	case ReasonOutageAllowed:
		return o.call.firstWith(Allow)
	case ReasonOutageDenied:
		return o.call.firstWith(Deny)
	}
	return ""
}

// LogValue makes observations readable in structured logs. It never holds a key, and nothing
// that the framework will overwrite.
func (o *Observation) LogValue() slog.Value {
	attrs := o.Decision.LogValue().Group()
	if _, ok := o.Binding(); !ok {
		attrs = appendAttr(attrs, "limit", o.Limit())
	}
	attrs = appendAttr(attrs, "adapter", o.Adapter)
	attrs = appendAttr(attrs, "method", strings.Clone(o.Method))
	attrs = appendAttr(attrs, "route", strings.Clone(o.Route()))
	if o.CheckTime > 0 {
		attrs = append(attrs, slog.Duration("check_time", o.CheckTime))
	}
	if o.WaitTime > 0 {
		attrs = append(attrs, slog.Duration("wait_time", o.WaitTime))
	}
	return slog.GroupValue(attrs...)
}

func appendAttr(attrs []slog.Attr, name, text string) []slog.Attr {
	if text == "" {
		return attrs
	}
	return append(attrs, slog.String(name, text))
}

// Key returns the key that the i-th of Decision.Results counts, as [keyfuncs.Encode] writes
// it: "user:42". It may identify a person; API keys and other secrets in it are hashed. It is
// empty where the request lacks the key, or has it several times. Of a limit with [Limit.Fair] it is the key of the client,
// whose share is judged: all of them have one key of the limit. For reading.
func (o *Observation) Key(i int) []byte {
	check, of := o.check(i)
	for c := o.call; c != nil && of != nil; c = c.outage {
		if n := c.shareUnder(of); n != nil { // also of a limit in which it only says who is next
			return visible(n.Key)
		}
	}
	return clientOf(check)
}

// clientOf returns the key of whoever a check is about, for observers.
func clientOf(check *Check) []byte {
	switch {
	case check == nil:
		return nil
	case check.Share != nil:
		return visible(check.Share.Key)
	}
	return visible(check.Key)
}

// visible returns a key for observers: that of requests without one has no meaning for them.
func visible(key []byte) []byte {
	if string(key) == missingKey {
		return nil
	}
	return key
}

// Cost returns how many units the i-th of Decision.Results asked for. They were taken if the
// result is Charged and the decision Allowed.
func (o *Observation) Cost(i int) int64 {
	if check, _ := o.check(i); check != nil {
		return check.Cost
	}
	return 0
}

// check returns what the store was asked for a result, or nil if it was not asked: another
// limit may have denied the request before.
func (o *Observation) check(i int) (*Check, *limit) {
	rule := o.Decision.Results()[i].Rule
	for c := o.call; c != nil; c = c.outage {
		if i < len(c.checks) && c.checks[i].Rule == rule {
			return &c.checks[i], c.limits[i] // the i-th of several under one limit
		}
		for j := range c.checks {
			if c.checks[j].Rule == rule {
				return &c.checks[j], c.limits[j]
			}
		}
	}
	return nil, nil
}

// Settlement is a change to what one limit has charged an allowed decision. The cost of the
// decision and the Units of all its settlements add up to what the request cost.
type Settlement struct {
	Rule   *Rule // the limit's name and numbers; for reading
	Shadow bool  // the limit is judged, and not enforced

	// Units is how much more was charged, or negative, how much was given back. Of a
	// [Concurrent] limit it is the slots that were given back.
	Units int64

	// Forgiven is how many of the Units were not charged, since the client owes as much as [Limit.Debt] lets it. Nothing
	// charges them later. It is also told of what this process has granted in an outage, with 0 Units: those were told
	// with the decisions.
	Forgiven int64

	// Err is why it is not known whether the store has taken note, or why it has not; then
	// nothing tries again. A change that is still to be tried again is not reported yet.
	Err error

	check *Check // behind a pointer, so that a Settlement that is printed or logged shows no key
}

// Key returns the key whose bucket changed, as [Observation.Key] does. It stays valid, for reading.
func (s Settlement) Key() []byte { return clientOf(s.check) }

// Observers returns an observer that passes everything on to several, in order; nil ones are
// left out. One that panics does not keep the others from hearing.
func Observers(several ...Observer) Observer { return observers(several) }

// observers are several observers, of which the limiter calls each by itself.
type observers []Observer

func (o observers) Attached(l *Limiter) {
	for _, each := range o {
		each.Attached(l)
	}
}

func (o observers) Decided(ctx context.Context, seen *Observation) {
	for _, each := range o {
		each.Decided(ctx, seen)
	}
}

func (o observers) Settled(s Settlement) {
	for _, each := range o {
		each.Settled(s)
	}
}

func (o observers) StoreEvent(e Event) {
	for _, each := range o {
		each.StoreEvent(e)
	}
}
