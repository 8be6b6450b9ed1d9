package main

import (
	"os"
	"testing"

	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
)

// reasons say why a function of the product has more than 60 lines.
var reasons = map[string]string{}

// A long function is split along its ideas, or says here why it is easier to read in one piece.
func TestLongFunctionsHaveAReason(t *testing.T) {
	t.Parallel()
	h := must.Get(read(os.DirFS(documents.Root)))(t)
	found := h.functions()
	for _, r := range found.rows {
		if reasons[r.name] == "" {
			t.Errorf("%s has %d lines. Split it along its ideas, or give a reason here why more than %d are easier to read in one piece", r.name, r.values[0], longest)
		}
	}
	for name := range reasons {
		if found.find(name) == nil {
			t.Errorf("%s is not long, and needs no reason", name)
		}
	}
	if len(h.rooms) < 30 {
		t.Errorf("read %d rooms only", len(h.rooms))
	}
}
