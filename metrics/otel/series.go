package otel

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// The names of attributes.
const (
	attrLimit      = attribute.Key("weblimit.limit")
	attrDecision   = attribute.Key("weblimit.decision")
	attrStanding   = attribute.Key("weblimit.standing")
	attrReason     = attribute.Key("weblimit.reason")
	attrAdapter    = attribute.Key("weblimit.adapter")
	attrRemaining  = attribute.Key("weblimit.remaining")
	attrRetryAfter = attribute.Key("weblimit.retry_after_ms")
	attrKind       = attribute.Key("weblimit.settlement.kind")
	attrNode       = attribute.Key("weblimit.store.node")
	attrChannel    = attribute.Key("weblimit.channel")
	attrExport     = attribute.Key("weblimit.export")
	attrVersion    = attribute.Key("weblimit.policy.version")
	attrRegion     = attribute.Key("weblimit.region")
	attrUnits      = attribute.Key("weblimit.region.units.kind")
	attrRoute      = attribute.Key("http.route")
	attrErrorType  = attribute.Key("error.type")
	attrPolicy     = attribute.Key("weblimit.rate_limiting.policy")
	attrResult     = attribute.Key("weblimit.rate_limiting.result")
)

const (
	// other stands for what would exceed a bound.
	other = "other"

	// These names are few, since applications choose them. The bounds matter only if they
	// make them of what clients send.
	maxLimits  = 1000
	maxNodes   = 1000
	maxClasses = 50
)

// series are the attribute sets of one limit, made once, since making them takes longer than
// counting.
type series struct {
	name      string // "" for decisions that are due to no limit
	decisions cache[outcome, []metric.AddOption]
	shadowed  cache[string, []metric.AddOption] // by route
	shares    cache[standing, []metric.AddOption]
	failures  cache[string, []metric.RecordOption]
	settled   [len(kinds)][]metric.AddOption
	record    []metric.RecordOption
	results   [len(results)]resultOptions // empty without rateLimiting
}

// outcome is what the attributes of a decision depend on, beside its limit.
type outcome struct {
	route, adapter string
	reason         core.Reason
	allowed        bool
}

// standing is what the attributes of a limit's answer to a client that divides it depend on.
type standing struct {
	store.Standing
	allowed bool
}

// share returns the attribute set of what a limit that clients divide said.
func (s *series) share(r *core.LimitResult) []metric.AddOption {
	of := standing{min(r.Standing, store.OverMaximum+1), r.Allowed} // a later one is unknown here
	if options, ok := s.shares.find(of); ok {
		return options
	}
	options, _ := s.shares.add(of, 2*int(store.OverMaximum+2), func() []metric.AddOption {
		return []metric.AddOption{s.with(attrStanding.String(word(of.String())), attrDecision.String(decisionWord(of.allowed)))}
	})
	return options
}

// The kinds of settlements.
const (
	charged = iota
	refunded
	unknown  // it is not known whether the store has taken note, or it has not
	forgiven // of what was charged, beyond the debt that a client can have
)

var kinds = [...]string{charged: "charged", refunded: "refunded", unknown: "unknown", forgiven: "forgiven"}

// limit returns the attribute sets of a limit.
func (o *Observer) limit(name string) *series {
	if s, ok := o.limits.find(name); ok {
		return s
	}
	name = strings.Clone(name)
	if s, ok := o.limits.add(name, maxLimits, func() *series { return o.newSeries(name) }); ok {
		return s
	}
	s, _ := o.limits.add(other, maxLimits+1, func() *series { return o.newSeries(other) })
	return s
}

func (o *Observer) newSeries(name string) *series {
	s := &series{name: valid(name)}
	if o.rateLimiting.on {
		s.results = byResult(s.name)
	}
	s.record = []metric.RecordOption{s.with()}
	for kind, text := range kinds {
		s.settled[kind] = []metric.AddOption{s.with(attrKind.String(text))}
	}
	return s
}

// with returns an attribute set of the limit and others.
func (s *series) with(attrs ...attribute.KeyValue) metric.MeasurementOption {
	return setOf(append(attrs, attrLimit.String(s.name))...)
}

// setOf returns an attribute set. Empty ones are left out.
func setOf(attrs ...attribute.KeyValue) metric.MeasurementOption {
	kept := make([]attribute.KeyValue, 0, len(attrs))
	for _, a := range attrs {
		if a.Value.AsString() != "" {
			kept = append(kept, a)
		}
	}
	return metric.WithAttributeSet(attribute.NewSet(kept...))
}

// decided returns the attribute set of a decision.
func (s *series) decided(of outcome, bound int) []metric.AddOption {
	if options, ok := s.decisions.find(of); ok {
		return options
	}
	of.route, of.adapter = strings.Clone(of.route), strings.Clone(of.adapter)
	if options, ok := s.add(of, bound); ok {
		return options
	}
	of.route, of.adapter = other, "" // so that the bound is exceeded by few
	options, _ := s.add(of, bound+2*maxReasons)
	return options
}

// maxReasons is above the number of reasons.
const maxReasons = 256

func (s *series) add(of outcome, bound int) ([]metric.AddOption, bool) {
	return s.decisions.add(of, bound, func() []metric.AddOption {
		return []metric.AddOption{s.with(attrRoute.String(valid(of.route)), attrAdapter.String(valid(of.adapter)),
			attrDecision.String(decisionWord(of.allowed)), attrReason.String(word(of.reason.String())))}
	})
}

// wouldBeDenied returns the attribute set of a denial in shadow mode.
func (s *series) wouldBeDenied(route string, bound int) []metric.AddOption {
	if options, ok := s.shadowed.find(route); ok {
		return options
	}
	route = strings.Clone(route)
	add := func(bound int) ([]metric.AddOption, bool) {
		return s.shadowed.add(route, bound, func() []metric.AddOption {
			return []metric.AddOption{s.with(attrRoute.String(valid(route)))}
		})
	}
	options, ok := add(bound)
	if !ok {
		route = other
		options, _ = add(bound + 1)
	}
	return options
}

// checked returns the attribute set of a check that failed for err, or did not.
func (s *series) checked(err error) []metric.RecordOption {
	if err == nil {
		return s.record
	}
	class := word(string(store.ErrorOf(err).Class))
	options, ok := s.failures.find(class)
	if !ok {
		options, ok = s.failures.add(class, maxClasses, func() []metric.RecordOption {
			return []metric.RecordOption{s.with(attrErrorType.String(class))}
		})
	}
	if !ok {
		return s.record
	}
	return options
}

func decisionWord(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

// word writes a reason or class as attributes are written: limit_exceeded.
func word(s string) string { return valid(strings.ReplaceAll(s, " ", "_")) }

// valid returns s as UTF-8: exporters refuse all of what they send together for one string that
// is not.
func valid(s string) string { return strings.ToValidUTF8(s, "?") }
