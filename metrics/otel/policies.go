package otel

import (
	"context"
	"slices"
	"sync"
	"weak"

	"go.opentelemetry.io/otel/metric"

	"github.com/weblimit/weblimit/core"
)

// maxVersions bounds the versions that are measured. An application has one for each policy file.
const maxVersions = 16

// policies are the limiters that have the observer, for the versions by which they decide. Its zero value
// is ready to use.
type policies struct {
	mu   sync.Mutex
	all  []weak.Pointer[core.Limiter] // Guarded by mu.
	tidy int                          // the length at which those that are gone are removed. Guarded by mu.
}

// Attached implements [core.Observer].
func (o *Observer) Attached(l *core.Limiter) {
	if o.unmeasured {
		return
	}
	p := &o.policies
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, weak.Make(l))
	if len(p.all) >= p.tidy {
		p.all = slices.DeleteFunc(p.all, func(l weak.Pointer[core.Limiter]) bool { return l.Value() == nil })
		p.tidy = 2*len(p.all) + 16
	}
}

// make makes the instruments, which are read when metrics are collected.
func (p *policies) make(m metric.Meter) error {
	info, err := m.Int64ObservableGauge("weblimit.policy.info", metric.WithUnit("{limiter}"),
		metric.WithDescription("Versions of configurations that decide now, such as those of policy files, by how many limiters have them."))
	if err != nil {
		return err
	}
	refused, err := m.Int64ObservableGauge("weblimit.policy.refused", metric.WithUnit("{limiter}"),
		metric.WithDescription("Limiters whose policy file has changed, and whose change was refused or can't be read: the version of before decides."))
	if err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		versions, n := p.now()
		for version, limiters := range versions {
			to.ObserveInt64(info, limiters, metric.WithAttributes(attrVersion.String(version)))
		}
		if len(versions) > 0 {
			to.ObserveInt64(refused, n)
		}
		return nil
	}, info, refused)
	if err != nil {
		return err
	}
	return p.makeConfigured(m)
}

// alive returns the limiters that still exist.
func (p *policies) alive() (alive []*core.Limiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pointer := range p.all {
		if l := pointer.Value(); l != nil {
			alive = append(alive, l)
		}
	}
	return alive
}

// now returns how many limiters decide by each version, and how many have refused another.
func (p *policies) now() (versions map[string]int64, refused int64) {
	versions = make(map[string]int64)
	for _, l := range p.alive() {
		stats := l.Stats()
		if version := valid(stats.Version); version != "" && (len(versions) < maxVersions || versions[version] > 0) {
			versions[version]++
		}
		if stats.Refused {
			refused++
		}
	}
	return versions, refused
}
