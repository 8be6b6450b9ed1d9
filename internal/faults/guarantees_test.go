package faults_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]+)`")
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]*)\(t \*testing\.T\)`)
)

// What is promised is shown, and what is shown is promised.
func TestGuaranteesNameTheirTests(t *testing.T) {
	t.Parallel()
	const root = "../.."
	named := map[string]bool{}
	for _, document := range []string{"guarantees.md", "redis.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", document))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testName.FindAllStringSubmatch(string(text), -1) {
			named[found[1]] = true
		}
	}
	exists := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range testFunc.FindAllStringSubmatch(string(source), -1) {
			exists[found[1]] = true
			if filepath.Base(filepath.Dir(path)) == "faults" && !named[found[1]] && found[1] != t.Name() && found[1] != "TestMain" {
				t.Errorf("%s of %s is in neither document", found[1], path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sorted(named) {
		if !exists[name] {
			t.Errorf("the documents name %s, which does not exist", name)
		}
	}
	if len(named) < 20 {
		t.Errorf("the documents name %d tests", len(named))
	}
}

func sorted(set map[string]bool) (names []string) {
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
