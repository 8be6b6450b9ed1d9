package main

import (
	"fmt"
	"strings"
)

// shown are the rows of the short table: what a service asks for, with the peers whose users ask most.
var shown = []struct {
	title, row string // %s stands for the peer
	unit       string
}{
	{"Redis, one key, 256 callers", "Redis/%s/1-key/256/allow", "checks/s"},
	{"Redis, 100,000 keys, 256 callers", "Redis/%s/100k-keys/256/allow", "checks/s"},
	{"Redis, 100,000 keys, 16 callers", "Redis/%s/100k-keys/16/allow", "checks/s"},
	{"in memory, 100,000 keys", "Memory/%s/100k-keys", "ns"},
	{"middleware of net/http, with headers", "Middleware/net-http/%s", "ns"},
}

var shownPeers = []string{"redis_rate", "ulule", "rueidislimiter", "httprate"}

// short is the table at the top of the page for users: what weblimit takes, and how many times as fast as
// others that is.
func (all *results) short() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| | weblimit | times %s |\n|---|---:|%s\n", strings.Join(shownPeers, " | times "), strings.Repeat("---:|", len(shownPeers)))
	for _, s := range shown {
		own := fmt.Sprintf(s.row, ours)
		if !all.has(own) {
			continue
		}
		figure := thousands(all.value(own, "ns/op"))
		if s.unit == "checks/s" {
			figure = thousands(all.perSecond(own))
		}
		fmt.Fprintf(&b, "| %s | %s %s |", s.title, figure, s.unit)
		for _, peer := range shownPeers {
			entry := "–"
			if other := fmt.Sprintf(s.row, peer); all.has(other) {
				entry = times(all.faster(own, other)) + all.mark(other)
			}
			fmt.Fprintf(&b, " %s |", entry)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
