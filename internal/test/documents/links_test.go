package documents

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

var (
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	linked     = regexp.MustCompile(`\]\(([^()\s]+)\)|(?:src|srcset|href)="([^"]+)"`)
	heading    = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	noSlug     = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	inComment  = regexp.MustCompile(`\bdocs/(?:[\w-]+/)*[\w.-]+\.(?:md|svg|png|json)(?:#[\w-]+)?`)
	goCommand  = regexp.MustCompile(`\bgo (?:-C (\S+) )?(?:run|test|build) [^\n` + "`" + `]*`)
	makeGoal   = regexp.MustCompile("(?:^|`)make ([a-z-]+)")
)

// home is where a link to the project's own pages begins, if it is absolute.
const home = "https://github.com/weblimit/weblimit/blob/main/"

// Every link between the documents leads to a file that exists, and to a heading that exists.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	links := 0
	Pages(t, Root, func(page, text string) {
		text = inlineCode.ReplaceAllString(fence.ReplaceAllString("\n"+text, "\n"), "")
		for _, found := range linked.FindAllStringSubmatch(text, -1) {
			target, ours := strings.CutPrefix(found[1]+found[2], home)
			switch {
			case ours:
			case strings.Contains(target, ":"): // another site
				continue
			case strings.HasPrefix(target, "#"):
				target = page + target
			default:
				target = path.Join(path.Dir(page), target)
			}
			links++
			if err := leads(target); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	})
	if links < 50 {
		t.Errorf("only %d links found", links)
	}
}

// The comments, errors and log lines that name a document name one that exists. So do alerts, units of
// systemd, scripts and the text of pages.
func TestSourcesNameDocumentsThatExist(t *testing.T) {
	t.Parallel()
	names := 0
	look := func(file, source string) {
		if !strings.Contains(source, "docs/") {
			return // the expression is slow
		}
		for _, target := range inComment.FindAllString(source, -1) {
			names++
			if err := leads(target); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	Sources(t, ".go", look)
	for _, folder := range []string{"", ".github", "deploy", "docs", "inspect", "scripts", "service"} {
		others(t, folder, look)
	}
	if names < 200 {
		t.Errorf("only %d documents are named", names)
	}
}

// others calls look with the text files of a folder, and of those within it, that are not Go. Of the root it
// takes the files alone.
func others(t *testing.T, folder string, look func(file, text string)) {
	t.Helper()
	root := filepath.Join(Root, folder)
	must.OK(t, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (folder == "" && file != root || slices.Contains(elsewhere, entry.Name())):
			return fs.SkipDir
		case entry.IsDir() || slices.Contains([]string{".go", ".png", ".svg"}, filepath.Ext(file)):
			return nil
		}
		text, err := os.ReadFile(file)
		look(file, string(text))
		return err
	}))
}

// leads returns an error unless target, a path from the root, exists. A fragment has to be
// a heading there.
func leads(target string) error {
	file, fragment, _ := strings.Cut(target, "#")
	if fragment == "" {
		_, err := os.Stat(filepath.Join(Root, file))
		return err
	}
	known, err := headings(file)
	if err == nil && !known[fragment] {
		err = fmt.Errorf("%s has no heading #%s", file, fragment)
	}
	return err
}

// headings returns the anchors of the file at a path from the root.
var headings = once(func(file string) (map[string]bool, error) {
	text, err := os.ReadFile(filepath.Join(Root, file))
	return anchors(string(text)), err
})

// once returns f, which is called once for each argument.
func once[K comparable, V any](f func(K) (V, error)) func(K) (V, error) {
	var all sync.Map
	return func(k K) (V, error) {
		result, _ := all.LoadOrStore(k, sync.OnceValues(func() (V, error) { return f(k) }))
		return result.(func() (V, error))()
	}
}

// anchors returns the fragments that GitHub gives to the headings of a text.
func anchors(text string) map[string]bool {
	all, seen := map[string]bool{}, map[string]int{}
	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString("\n"+text, "\n"), -1) {
		name := strings.ToLower(linkText.ReplaceAllString(found[1], "$1"))
		name = strings.ReplaceAll(noSlug.ReplaceAllString(name, ""), " ", "-")
		if n := seen[name]; n > 0 {
			all[fmt.Sprintf("%s-%d", name, n)] = true
		}
		all[name] = true
		seen[name]++
	}
	return all
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	got := anchors("# A `b`, [c](d.md)\n\n## What's new?\n\n```sh\n# no heading\n```\n\n## What's new?\n")
	for _, want := range []string{"a-b-c", "whats-new", "whats-new-1"} {
		if !got[want] {
			t.Errorf("%q is missing: %v", want, got)
		}
	}
	if len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// The commands that documents show name folders with Go files, and targets of the Makefile.
func TestCommandsExist(t *testing.T) {
	t.Parallel()
	makefile := must.Get(os.ReadFile(filepath.Join(Root, "Makefile")))(t)
	commands := 0
	Pages(t, Root, func(page, text string) {
		for _, command := range goCommand.FindAllStringSubmatch(text, -1) {
			for word := range strings.FieldsSeq(command[0]) {
				folder := strings.TrimRight(strings.TrimSuffix(word, "/..."), "/")
				if !strings.HasPrefix(folder, "./") {
					continue
				}
				commands++
				if !holdsGo(filepath.Join(Root, command[1], folder)) && !strings.HasSuffix(word, "/...") {
					t.Errorf("%s: %s: no Go files in %s", page, command[0], folder)
				}
			}
		}
		for _, found := range makeGoal.FindAllStringSubmatch(text, -1) {
			commands++
			if !strings.Contains(string(makefile), "\n"+found[1]+":") {
				t.Errorf("%s: the Makefile has no target %s", page, found[1])
			}
		}
	})
	if commands < 20 {
		t.Errorf("only %d commands found", commands)
	}
}

func holdsGo(folder string) bool {
	files, _ := filepath.Glob(filepath.Join(folder, "*.go"))
	return len(files) > 0
}

// The index of docs names every page, and that of examples every program.
func TestIndexesAreComplete(t *testing.T) {
	t.Parallel()
	for index, pattern := range map[string]string{"docs/README.md": "*/*.md", "examples/README.md": "*/main.go"} {
		text, err := os.ReadFile(filepath.Join(Root, index))
		if err != nil {
			t.Error(err)
			continue
		}
		entries := must.Get(filepath.Glob(filepath.Join(Root, path.Dir(index), pattern)))(t)
		for _, entry := range entries {
			name, _ := filepath.Rel(filepath.Join(Root, path.Dir(index)), entry) // such as use/keys.md, or hello/main.go
			name = strings.TrimSuffix(filepath.ToSlash(name), "/main.go")
			if !strings.Contains(string(text), "("+name+")") {
				t.Errorf("%s has no link to %s", index, name)
			}
		}
		if len(entries) < 10 {
			t.Errorf("%s has only %d entries", index, len(entries))
		}
	}
	if top := must.Get(filepath.Glob(filepath.Join(Root, "docs/*.md")))(t); len(top) != 1 {
		t.Errorf("of %v, all but the index belong into the folder of their readers", top)
	}
}
