// Package documents lets tests read the project's documents: tests run the examples that
// documents show, and check that the tests that documents name exist.
package documents

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Root is the root of the repository, as seen from the packages of internal/test.
const Root = "../../.."

// Read returns the text of a document of docs.
func Read(tb testing.TB, name string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(Root, "docs", name))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// Block returns the only fenced block of a language in a document of docs.
func Block(tb testing.TB, name, language string) string {
	tb.Helper()
	_, rest, ok := strings.Cut(Read(tb, name), "\n```"+language+"\n")
	block, rest, closed := strings.Cut(rest, "\n```\n")
	if !ok || !closed || strings.Contains(rest, "\n```"+language+"\n") {
		tb.Fatalf("%s does not have one block of %s", name, language)
	}
	return block + "\n"
}

// Sources calls visit with each file of the repository whose name ends in suffix.
func Sources(tb testing.TB, suffix string, visit func(path, source string)) {
	tb.Helper()
	err := filepath.WalkDir(Root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, suffix) {
			return err
		}
		source, err := os.ReadFile(path)
		visit(path, string(source))
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// Pages calls visit with each page of Markdown below root, by its path from there.
func Pages(tb testing.TB, root string, visit func(page, text string)) {
	tb.Helper()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{".git", "node_modules", "testdata"}, entry.Name()) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(file, ".md") {
			return err
		}
		text, err := os.ReadFile(file)
		page, _ := filepath.Rel(root, file)
		visit(filepath.ToSlash(page), string(text))
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
}

var (
	reference = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]+|Fuzz[A-Z][A-Za-z0-9]+)(?:/([^`]+))?`")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)\([a-z]+ \*testing\.[TF]\)`)
)

// Reference is a test as a document names it: `TestSuite`, or one of its cases with its
// name in the source, `TestSuite/a bypass touches no store`.
type Reference struct{ Test, Case string }

func (r Reference) String() string { return strings.TrimSuffix(r.Test+"/"+r.Case, "/") }

// References returns the tests that a text names.
func References(text string) (all []Reference) {
	for _, found := range reference.FindAllStringSubmatch(text, -1) {
		all = append(all, Reference{found[1], found[2]})
	}
	return all
}

// Tests returns the names of the tests and fuzz targets that a source declares.
func Tests(source string) (names []string) {
	for _, found := range testFunc.FindAllStringSubmatch(source, -1) {
		names = append(names, found[1])
	}
	return names
}

// Exist fails the test for each reference to a test that does not exist.
func Exist(tb testing.TB, references []Reference) {
	tb.Helper()
	tests, cases := map[string]bool{}, map[string]bool{}
	for _, r := range references {
		cases[r.Case] = r.Case == ""
	}
	Sources(tb, ".go", func(path, source string) {
		if strings.HasSuffix(path, "_test.go") {
			for _, name := range Tests(source) {
				tests[name] = true
			}
		}
		for name, found := range cases {
			if !found && strings.Contains(source, `"`+name+`"`) {
				cases[name] = true
			}
		}
	})
	for _, r := range references {
		if !tests[r.Test] || !cases[r.Case] {
			tb.Errorf("the documents name %s, which does not exist", r)
		}
	}
}
