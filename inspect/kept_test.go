package inspect_test

import (
	"context"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/internal/test/check"
)

// keeper is a store that keeps the limit "global" in a book.
type keeper struct{ core.Store }

func (k keeper) Reset(ctx context.Context, checks []store.Check) error {
	var others []store.Check
	for _, c := range checks {
		if c.Rule.Name != "global" {
			others = append(others, c)
		}
	}
	if err := k.Store.Reset(ctx, others); err != nil || len(others) == len(checks) {
		return err
	}
	return &books.KeptError{Limits: []string{"global"}}
}

// What is kept in a book is not reset. The answer says so, what to do instead, and what was reset.
func TestKeptLimitsAreNotReset(t *testing.T) {
	t.Parallel()
	in := start(t, keeper{memstore.New()})
	status, answer := in.call(t, "POST", "api/v1/reset", `{"key":"all","limit":"global"}`)
	if status != 409 || !strings.Contains(answer, "kept in a book") || !strings.Contains(answer, "Adjust") {
		t.Errorf("a reset of a limit that is kept: %d %s", status, answer)
	}
	var done struct{ Limits, Kept []string }
	in.must(t, "POST", "api/v1/reset", `{"key":"mallory"}`, &done)
	check.All(t, "a reset of all", []any{done.Limits, done.Kept}, "[per-user trial]", "[global]")
	for _, want := range []string{`"kept":"global","result":"refused"`, `"kept":"global","result":"done"`} {
		check.Contains(t, "the log", in.log.String(), want)
	}
}

// The ledger of a book is part of the health, and its channels are no servers.
func TestHealthOfABook(t *testing.T) {
	t.Parallel()
	in := start(t, memstore.New())
	report := func(kind store.EventKind, node string) {
		in.store.Registry().Report(core.Event{Kind: kind, Node: node, Count: 1})
	}
	type health struct {
		State  string
		Ledger *struct{} `json:"ledger_outage"`
		Nodes  []struct{ Node string }
		Events []struct{ Kind, Node string }
	}
	var h health
	report("notices dead", "billing")
	report("ledger out", "")
	in.must(t, "GET", "api/v1/health", "", &h)
	check.All(t, "with the ledger out", []any{h.State, h.Ledger != nil, len(h.Nodes), h.Events[len(h.Events)-1].Node, len(h.Events)}, "degraded", true, 0, "billing", 2)
	report("ledger back", "")
	h = health{}
	in.must(t, "GET", "api/v1/health", "", &h)
	check.All(t, "with the ledger back", []any{h.State, h.Ledger != nil}, "ok", false)
}
