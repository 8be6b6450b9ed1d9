package documents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// An adapter is in each list of adapters: where users look for theirs, where it is kept from moving versions of
// others, and in the suites that compare all of them.
func TestEveryAdapterIsListed(t *testing.T) {
	t.Parallel()
	var adapters []string
	for _, found := range must.Get(filepath.Glob(filepath.Join(Root, "*limit", "go.mod")))(t) {
		if name := filepath.Base(filepath.Dir(found)); name != "llmlimit" { // which stands on no framework
			adapters = append(adapters, name)
		}
	}
	if len(adapters) < 7 {
		t.Fatalf("only %v are known as adapters", adapters)
	}
	var programs, suites strings.Builder
	Sources(t, ".go", func(path, source string) {
		switch {
		case strings.Contains(path, "/examples/") && filepath.Base(path) == "main.go":
			programs.WriteString(source)
		case strings.Contains(path, "/internal/suites/frameworks/"), strings.Contains(path, "/internal/suites/majors/"):
			suites.WriteString(source)
		}
	})
	text := func(path string) string { return string(must.Get(os.ReadFile(filepath.Join(Root, path)))(t)) }
	for _, adapter := range adapters {
		imported := `"github.com/weblimit/weblimit/` + adapter + `"`
		for _, list := range []struct{ what, text, has string }{
			{"the table of frameworks in README.md", text("README.md"), adapter + ".Limit("},
			{"scripts/check-deps", text("scripts/check-deps"), "\ncheck_module " + adapter + " "},
			{"internal/test/users/raised_test.go", text("internal/test/users/raised_test.go"), `"` + adapter + `":`},
			{"a program of examples", programs.String(), imported},
			{"internal/suites/frameworks or internal/suites/majors", suites.String(), imported},
		} {
			overHTTP := adapter != "grpclimit" // whose requests those suites don't send
			if (overHTTP || !strings.Contains(list.what, "suites")) && !strings.Contains(list.text, list.has) {
				t.Errorf("%s lacks %s: it has no %q", list.what, adapter, list.has)
			}
		}
	}
}

// A store that processes share is in the README's table of stores, and histories of several processes are checked on it.
func TestEveryStoreIsListed(t *testing.T) {
	t.Parallel()
	var histories strings.Builder
	Sources(t, "_test.go", func(path, source string) {
		if strings.Contains(path, "/internal/suites/prove/") {
			histories.WriteString(source)
		}
	})
	readme := string(must.Get(os.ReadFile(filepath.Join(Root, "README.md")))(t))
	stores := must.Get(filepath.Glob(filepath.Join(Root, "core", "*store")))(t)
	for _, folder := range stores {
		name := filepath.Base(folder)
		if name == "store" || name == "memstore" { // the contract; core.NewMemory
			continue
		}
		if !strings.Contains(readme, "`core/"+name+"`") {
			t.Errorf("the table of stores in README.md does not name core/%s", name)
		}
		if !strings.Contains(histories.String(), `"github.com/weblimit/weblimit/core/`+name+`"`) {
			t.Errorf("internal/suites/prove checks no histories on core/%s", name)
		}
	}
	if len(stores) < 4 {
		t.Errorf("only %v are known as stores", stores)
	}
}
