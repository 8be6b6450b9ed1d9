package redisstore

// A look at Redis's settings when a limiter starts.

import (
	"bufio"
	"context"
	"strings"
)

// eviction is [store.Server].Eviction. It reports a Redis that evicts keys when its memory
// is full, and with them what clients have used. Nothing else needs the permission
// for INFO.
func (s *Store) eviction(ctx context.Context) (problem string, err error) {
	info, err := s.client.Info(ctx, "memory").Result()
	if err != nil {
		return "", err
	}
	if policy := fieldOf(info, "maxmemory_policy"); fieldOf(info, "maxmemory") != "0" && policy != "noeviction" {
		return "Redis has maxmemory-policy " + policy +
			": when its memory is full it forgets what clients have used; give limits a Redis of their own with noeviction", nil
	}
	return "", nil
}

// fieldOf returns a field of a reply to INFO, or "".
func fieldOf(info, name string) string {
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			return value
		}
	}
	return ""
}
