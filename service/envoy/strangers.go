package envoy

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/internal/spelling"
)

// maxStrangers bounds how many domains are logged that no file has: callers can make them up.
const maxStrangers = 16

// strangers are domains of requests that no file has. Nothing limits such requests, and Envoy sees OK: a
// domain that is misspelled would show in a counter alone.
type strangers struct {
	mu    sync.Mutex
	names map[string]bool // Guarded by mu.
}

// isNew reports whether a domain is to be logged.
func (s *strangers) isNew(domain string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[domain] || len(s.names) >= maxStrangers {
		return false
	}
	if s.names == nil {
		s.names = make(map[string]bool)
	}
	s.names[domain] = true
	return true
}

// warnOfStranger logs a domain that no file has, once.
func (s *Server) warnOfStranger(domain string, known *rules) {
	s.stats.unknownDomain.Add(1)
	if domain = shortened(domain); !s.strangers.isNew(domain) {
		return
	}
	names := slices.Sorted(maps.Keys(known.domains))
	s.config.Logger.LogAttrs(context.Background(), slog.LevelWarn,
		"weblimit: envoy: requests of a domain that no file has are not limited"+spelling.Meant(domain, names), slog.String("domain", domain),
		slog.Any("known", names[:min(len(names), maxStrangers)]))
}
