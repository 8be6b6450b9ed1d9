package quota

import (
	"strings"
	"testing"
)

// An error about a credit that never expires names no date.
func TestACreditWithoutExpiryInWords(t *testing.T) {
	t.Parallel()
	c := change{kind: changeCredit, limit: "plan", tenant: "tenant:acme", units: 7, reason: "top-up"}
	if words := c.inWords(); !strings.Contains(words, "without expiry") || strings.Contains(words, "1970") {
		t.Error(words)
	}
	c.expires = 1_796_083_200_000_000
	if words := c.inWords(); !strings.Contains(words, "until 2026-12-01") {
		t.Error(words)
	}
}
