package quota

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/quota/internal/terms"
)

// An error about a credit that never expires names no date.
func TestACreditWithoutExpiryInWords(t *testing.T) {
	t.Parallel()
	c := terms.Change{Kind: terms.ChangeCredit, Limit: "plan", Tenant: "tenant:acme", Units: 7, Reason: "top-up"}
	if words := c.InWords(); !strings.Contains(words, "without expiry") || strings.Contains(words, "1970") {
		t.Error(words)
	}
	c.Expires = 1_796_083_200_000_000
	if words := c.InWords(); !strings.Contains(words, "until 2026-12-01") {
		t.Error(words)
	}
}
