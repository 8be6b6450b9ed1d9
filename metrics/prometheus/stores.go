package prometheus

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/core/store/regional"
)

const (
	// maxNodes and maxClasses bound the labels that stores choose. Those of redisstore have some
	// 25 classes, and one node per server.
	maxNodes   = 256
	maxClasses = 64

	// unasked is how long a node whose breaker is open is listed after the last check for it. A
	// node that has left its Cluster is never asked again, and its breaker does not close.
	unasked = 10 * time.Minute

	// maxVersions bounds the versions that are listed. An application has one for each policy file.
	maxVersions = 16

	// fallbackQuiet is how long the fallback counts as active after a decision.
	fallbackQuiet = 10 * time.Second
)

// stores is what the observer knows of the stores' health. Its zero value is ready to use.
type stores struct {
	fellBack atomic.Int64 // when a decision was last made without the store: Unix nanoseconds

	mu      sync.Mutex
	nodes   map[string]*node  // by label. Guarded by mu.
	classes map[string]string // from class to label. Guarded by mu.
}

// node is a server of a store.
type node struct {
	hasBreaker bool
	open       bool
	seen       time.Time // when it was last heard of
}

// failed counts an error of a store.
func (s *stores) failed(m *metrics, err error, decided bool) {
	now := time.Now()
	if decided {
		s.fellBack.Store(now.UnixNano())
	}
	e := store.ErrorOf(err)
	s.mu.Lock()
	label, known := s.classes[string(e.Class)]
	if !known {
		label = otherSeries
		if len(s.classes) < maxClasses {
			if s.classes == nil {
				s.classes = map[string]string{}
			}
			label = word(string(e.Class))
			s.classes[strings.Clone(string(e.Class))] = label
		}
	}
	at, n := s.node(e.Node)
	n.seen = now
	s.mu.Unlock()
	m.errors.WithLabelValues(label, at).Inc()
}

// node returns a node and its label. s.mu is held.
func (s *stores) node(name string) (string, *node) {
	name = strings.ToValidUTF8(name, "?")
	n, known := s.nodes[name]
	if known {
		return name, n
	}
	if len(s.nodes) >= maxNodes {
		name = otherSeries
		if n, known = s.nodes[name]; known {
			return name, n
		}
	}
	if s.nodes == nil {
		s.nodes = map[string]*node{}
	}
	n = new(node)
	s.nodes[strings.Clone(name)] = n
	return name, n
}

// breaker notes the state of a node's breaker, and returns the node's label.
func (s *stores) breaker(name string, open bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	label, n := s.node(name)
	n.hasBreaker, n.open, n.seen = true, open, time.Now()
	return label
}

func (s *stores) collect(m *metrics, to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, on bool, labels ...string) {
		value := 0.0
		if on {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(m.fallbackActive, time.Since(time.Unix(0, s.fellBack.Load())) < fallbackQuiet)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range s.nodes {
		if n.hasBreaker && (!n.open || time.Since(n.seen) < unasked) {
			gauge(m.breakerOpen, n.open, name)
		}
	}
}

// limiters are those that have the observer. Its zero value is ready to use.
type limiters struct {
	mu   sync.Mutex
	all  []weak.Pointer[core.Limiter] // Guarded by mu.
	tidy int                          // the length at which those that are gone are removed. Guarded by mu.
}

func (l *limiters) add(limiter *core.Limiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, weak.Make(limiter))
	if len(l.all) >= l.tidy {
		l.alive()
		l.tidy = 2*len(l.all) + 16
	}
}

// alive returns the limiters that still exist. l.mu is held.
func (l *limiters) alive() (alive []*core.Limiter) {
	kept := l.all[:0]
	for _, pointer := range l.all {
		if limiter := pointer.Value(); limiter != nil {
			alive, kept = append(alive, limiter), append(kept, pointer)
		}
	}
	clear(l.all[len(kept):])
	l.all = kept
	return alive
}

func (l *limiters) collect(m *metrics, to chan<- prometheus.Metric) {
	l.mu.Lock()
	alive := l.alive()
	l.mu.Unlock()
	var buckets, waiting, out, refused float64
	var kept bookSeries
	var inRegions []regional.Stats
	known := map[*store.Registry]bool{}
	var configured configured
	versions := map[string]float64{}
	for _, limiter := range alive {
		stats := limiter.Stats()
		waiting += float64(stats.Waiting)
		if stats.Refused {
			refused++
		}
		if version := strings.ToValidUTF8(stats.Version, "?"); version != "" && (len(versions) < maxVersions || versions[version] > 0) {
			versions[version]++
		}
		if registry := limiter.Store().Registry().Root(); !known[registry] {
			known[registry] = true
			buckets += float64(stats.Buckets)
			kept.add(books.All(registry))
			inRegions = append(inRegions, regional.All(registry)...)
			configured.add(registry)
			if stats.Outage {
				out++
			}
		}
	}
	for desc, value := range map[*prometheus.Desc]float64{m.buckets: buckets, m.waiting: waiting, m.outageActive: out, m.policyRefused: refused} {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	configured.collect(m, to)
	kept.collect(&m.books, to)
	m.regions.collect(inRegions, to)
	for version, n := range versions {
		to <- prometheus.MustNewConstMetric(m.policyInfo, prometheus.GaugeValue, n, version)
	}
}
