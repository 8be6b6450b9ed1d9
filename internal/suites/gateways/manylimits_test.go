package gateways

import (
	"fmt"
	"strings"
	"testing"
)

// many has a path with 61 limits of long names, beside the limit of each client.
func many() string {
	text := &strings.Builder{}
	text.WriteString("policies:\n  api:\n    limits:\n      client: {limit: 3/day fixed, by: ip, unless: {paths: [/many]}}\n")
	for i := range 61 {
		fmt.Fprintf(text, "      limit-%054d: {limit: 1000000000/day fixed, by: ip, when: {paths: [/many]}}\n", i)
	}
	return text.String()
}

// An answer about many limits is not too large for the gateway. It would take it for a failure of the limiter, and after a
// few of them decide for everybody as if the limiter were away.
func TestManyLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.start(t, many(), p.policies[len(p.policies)-1]) // open
		for i := range 60 {
			if a := s.get(t, s.attacker, "/many"); a.StatusCode != 200 || !strings.Contains(a.Header.Get("RateLimit"), `"limit-`) {
				t.Fatalf("request %d: %s %v", i+1, a.Status, a.Header)
			}
		}
		got := s.ask(t, s.client(t, s.bystander), 8)
		if got.statuses[200] != 3 || got.statuses[429] != 5 || got.limited != 3 {
			t.Errorf("another client, which has 3 requests a day: %+v", got)
		}
	})
}
