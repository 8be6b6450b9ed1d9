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
	"sync"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// Root is the root of the repository, as seen from the packages of internal/test.
const Root = "../../.."

// Read returns the text of a document by its path in docs, such as use/keys.md.
func Read(tb testing.TB, name string) string {
	tb.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(Root, "docs", name)))(tb))
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

// file is one of the repository: its path from this folder, and its text.
type file struct{ path, text string }

// sources are all files of Go, read once.
var sources = sync.OnceValues(func() (all []file, err error) {
	err = filepath.WalkDir(Root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains(elsewhere, entry.Name()) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		all = append(all, file{path, string(text)})
		return err
	})
	return all, err
})

// elsewhere are folders whose files are not the project's.
var elsewhere = []string{".git", "node_modules"}

// Sources calls visit with each file of Go whose name ends in suffix.
func Sources(tb testing.TB, suffix string, visit func(path, source string)) {
	tb.Helper()
	for _, f := range must.Get(sources())(tb) {
		if strings.HasSuffix(f.path, suffix) {
			visit(f.path, f.text)
		}
	}
}

// Pages calls visit with each page of Markdown below root, by its path from there.
func Pages(tb testing.TB, root string, visit func(page, text string)) {
	tb.Helper()
	must.OK(tb, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == "testdata" || slices.Contains(elsewhere, entry.Name())) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(file, ".md") {
			return err
		}
		text, err := os.ReadFile(file)
		page, _ := filepath.Rel(root, file)
		visit(filepath.ToSlash(page), string(text))
		return err
	}))
}

var (
	reference = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]+|Fuzz[A-Z][A-Za-z0-9]+)(?:/([^`]+))?`")
	testFunc  = regexp.MustCompile(`^func ((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)\([a-z]+ \*testing\.[TF]\)`)
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
	for _, start := range []string{"\nfunc Test", "\nfunc Fuzz"} { // the expression alone takes seconds for all sources
		for rest := source; ; {
			at := strings.Index(rest, start)
			if at < 0 {
				break
			}
			line, after, _ := strings.Cut(rest[at+1:], "\n")
			if found := testFunc.FindStringSubmatch(line); found != nil {
				names = append(names, found[1])
			}
			rest = "\n" + after
		}
	}
	return names
}

// code is what [Exist] looks in: the names of all tests, and all sources together.
var code = sync.OnceValues(func() (tests map[string]bool, all string) {
	tests = map[string]bool{}
	files, _ := sources() // whose error Exist reports
	var b strings.Builder
	for _, f := range files {
		b.WriteString(f.text)
		if strings.HasSuffix(f.path, "_test.go") {
			for _, name := range Tests(f.text) {
				tests[name] = true
			}
		}
	}
	return tests, b.String()
})

// Exist fails the test for each reference to a test that does not exist.
func Exist(tb testing.TB, references []Reference) {
	tb.Helper()
	_ = must.Get(sources())(tb)
	tests, all := code()
	for _, r := range references {
		if !tests[r.Test] || r.Case != "" && !strings.Contains(all, `"`+r.Case+`"`) {
			tb.Errorf("the documents name %s, which does not exist", r)
		}
	}
}
