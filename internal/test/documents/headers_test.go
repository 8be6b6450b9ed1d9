package documents

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
)

// The page about headers has a section for each dialect. What the sections of one-limit dialects show is compared by
// internal/suites/clients, for the dialects that its own list has.
func TestTheHeadersPageHasEachDialect(t *testing.T) {
	t.Parallel()
	page := Read(t, "use/headers.md")
	for dialect := core.Headers(1); dialect != 0; dialect <<= 1 {
		name := dialect.String()
		if strings.Contains(name, "(") {
			break // core has no further one
		}
		if !strings.Contains(page, "\n### "+name+"\n") {
			t.Errorf("docs/use/headers.md has no section %q", name)
		}
	}
}
