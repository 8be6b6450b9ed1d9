package service

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// Each path of the API is in its description and in the page for people, and the description has no others.
func TestEveryCallIsDescribed(t *testing.T) {
	t.Parallel()
	var described struct {
		Paths map[string]any `json:"paths"`
	}
	must.OK(t, json.Unmarshal(openAPI, &described))
	all := append(slices.Collect(maps.Keys(calls)), "/v1/openapi.json")
	slices.Sort(all)
	if got := slices.Sorted(maps.Keys(described.Paths)); !slices.Equal(got, all) {
		t.Errorf("openapi.json describes %q, and the service has %q", got, all)
	}
	page := string(must.Get(os.ReadFile("../docs/service/http.md"))(t))
	for path := range calls {
		if !strings.Contains(page, "\n| `POST "+path+"` |") {
			t.Errorf("docs/service/http.md has no row for POST %s", path)
		}
	}
}
