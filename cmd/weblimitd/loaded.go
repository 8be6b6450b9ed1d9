package main

import (
	"fmt"
	"strings"

	"github.com/weblimit/weblimit/internal/spelling"
)

func (s *daemon) policyVersion() string {
	if s.policies == nil {
		return ""
	}
	return s.policies.Status().Version.String()
}

// loaded says in words what there is to decide by.
func (s *daemon) loaded() string {
	var all []string
	if s.policies != nil {
		status := s.policies.Status()
		all = append(all, fmt.Sprintf("policy %s, version %s: %s, %s", status.File, status.Version,
			counted(status.Policies, "policy"), counted(status.Limits, "limit")))
		if by := byPeer(status.ByPeer); by != "" {
			all = append(all, by)
		}
	}
	for _, m := range s.mounts {
		if m.loaded != nil {
			all = append(all, m.loaded())
		}
	}
	return strings.Join(all, "; ")
}

// byPeer says which clients share a bucket where policies count by ip and have no client_ip.
func byPeer(policies []string) string {
	if len(policies) == 0 {
		return ""
	}
	const most = 5
	more := ""
	if n := len(policies) - most; n > 0 {
		policies, more = policies[:most], fmt.Sprintf(" and %d more", n)
	}
	return "by: ip without client_ip in " + strings.Join(policies, ", ") + more +
		" is the address that a gateway or caller names: where that is a proxy's, all clients behind it share one bucket; see client_ip and --gateway-proxies"
}

// counted returns "1 policy" or "2 policies".
func counted(n int, noun string) string {
	return fmt.Sprintf("%d %s", n, spelling.Plural(n, noun))
}
