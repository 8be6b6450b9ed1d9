package service

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

var update = flag.Bool("update", false, "write the copy of openapi.json in docs instead of comparing it")

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
	const published = "../docs/service.openapi.json"
	if *update {
		must.OK(t, os.WriteFile(published, openAPI, 0o600))
	}
	if !bytes.Equal(must.Get(os.ReadFile(published))(t), openAPI) {
		t.Errorf("%s is not a copy of openapi.json; go test ./service -run EveryCall -update writes it", published)
	}
	page := string(must.Get(os.ReadFile("../docs/service/http.md"))(t))
	for path := range calls {
		if !strings.Contains(page, "\n| `POST "+path+"` |") {
			t.Errorf("docs/service/http.md has no row for POST %s", path)
		}
	}
}
