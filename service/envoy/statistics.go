package envoy

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// separator stands between the levels of a name in statistics. Values of requests lose it, and dots
// of theirs separate nothing.
const separator = "\x1f"

// dotted returns a name as people read it.
func dotted(path string) string { return strings.ReplaceAll(path, separator, ".") }

// shortened returns a text of a request as a part of a name, which is kept.
func shortened(text string) string {
	const longest = 64
	if len(text) > longest {
		text = text[:longest]
	}
	return strings.Clone(strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), separator, " "))
}

// statistics are the counters of envoyproxy/ratelimit.
type statistics struct {
	requests, serviceErrors, storeErrors atomic.Uint64
	loaded, notLoaded                    atomic.Uint64
	shadowed, unknownDomain              atomic.Uint64

	most   int
	series sync.Map // of path to *series
	known  atomic.Int64
	rest   series // of paths beyond the bound
}

// series are the counters of one path, in hits.
type series struct {
	total, within, near, over, shadow atomic.Uint64
}

// of returns the counters of a path. Callers at the same moment can pass the bound by one each.
func (s *statistics) of(path string) *series {
	if known, ok := s.series.Load(path); ok {
		return known.(*series)
	}
	if s.known.Load() >= int64(s.most) {
		return &s.rest
	}
	known, before := s.series.LoadOrStore(path, new(series))
	if !before {
		s.known.Add(1)
	}
	return known.(*series)
}

// count counts the hits of a descriptor.
func (s *statistics) count(config *Config, a *asked, left int64, code rls.RateLimitResponse_Code, shadow bool) {
	to := s.of(a.path)
	to.total.Add(a.hits)
	if a.rule.unlimited {
		return
	}
	if code == overCode {
		to.over.Add(a.hits)
		if shadow {
			to.shadow.Add(a.hits)
		}
		return
	}
	to.within.Add(a.hits)
	limit := int64(a.rule.limit.GetRequestsPerUnit())
	threshold := int64(math.Floor(float64(limit) * config.NearLimit))
	if after := limit - left; after > threshold {
		to.near.Add(min(a.hits, uint64(after-threshold)))
	}
}
