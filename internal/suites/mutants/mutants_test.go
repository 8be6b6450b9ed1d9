package mutants

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// The list stays true: what a mutant replaces is there, once, and what it makes of that is Go.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	what := make(map[string]bool)
	for _, m := range All() {
		if n, err := m.Count(Root); err != nil || n != 1 {
			t.Errorf("%s: %d times in the file, and not once: %q (%s), %v", m.File, n, m.Old, m.What, err)
		} else if strings.HasSuffix(m.File, ".go") {
			right := string(must.Get(os.ReadFile(filepath.Join(Root, m.File)))(t))
			if _, err := parser.ParseFile(token.NewFileSet(), m.File, strings.Replace(right, m.Old, m.New, 1), parser.SkipObjectResolution); err != nil {
				t.Errorf("%s: this is no Go: %v", m.What, err)
			}
		}
		if m.Tests == "" || m.What == "" || what[m.What] {
			t.Errorf("%+v: no tests are named, or the description is that of another", m)
		}
		what[m.What] = true
	}
}

// Each row of the table is of a mistake, and names a test that is there. A mistake without a row was not made since it is
// in the list.
func TestTheTableIsTrue(t *testing.T) {
	t.Parallel()
	rows := must.Get(readRows(table))(t)
	for _, m := range All() {
		by, known := rows[m.What]
		delete(rows, m.What)
		if name, _, _ := strings.Cut(by.test, "/"); known && name != "" && !hasTest(t, by.pkg, name) {
			t.Errorf("%s: %s has no %s; make mutants ONLY='%s'", m.What, by.pkg, name, regexp.QuoteMeta(m.What))
		}
	}
	for what := range rows {
		t.Errorf("%s: nobody makes this mistake", what)
	}
}

// hasTest reports whether a package has a test of that name.
func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	for _, file := range must.Get(filepath.Glob(filepath.Join(Root, pkg, "*_test.go")))(t) {
		if strings.Contains(string(must.Get(os.ReadFile(file))(t)), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
