package documents

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

var (
	fence    = regexp.MustCompile("(?s)\n```.*?\n```\n")
	quoted   = regexp.MustCompile("`([^`]+)`")
	filePath = regexp.MustCompile(`^[a-zA-Z0-9_./-]*(/|/[a-zA-Z0-9_.-]+|\.(go|lua|md|svg|mod))$`)
	goName   = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$`)
)

// What the pages about the inside name is there: every path, and every Go name in the file that the
// line names before it.
func TestInsideNamesWhatExists(t *testing.T) {
	t.Parallel()
	names := 0
	for _, page := range []string{"inside.md", "map.md", "words.md", "request.md", "layout.md", "changes.md"} {
		names += namesOf(t, page)
	}
	if names < 300 {
		t.Errorf("the pages name %d identifiers of Go: are they still read?", names)
	}
}

// namesOf checks what a page of docs/maintain names, and returns how many names of Go it has.
func namesOf(t *testing.T, page string) (names int) {
	t.Helper()
	for line := range strings.Lines(fence.ReplaceAllString(Read(t, "maintain/"+page), "\n")) {
		file := ""
		for _, found := range quoted.FindAllStringSubmatch(line, -1) {
			switch text := found[1]; {
			case filePath.MatchString(text):
				file = text
				info, err := os.Stat(filepath.Join(Root, text))
				if err != nil || info.IsDir() != strings.HasSuffix(text, "/") {
					t.Errorf("%s names %s, which is no such file or folder", page, text)
				}
			case goName.MatchString(text):
				names++
				if !strings.HasSuffix(file, ".go") {
					t.Errorf("%s names %s, and on this line no Go file before it:\n%s", page, text, line)
				} else if declared, err := declarations(file); err != nil || !declared[text] {
					t.Errorf("%s says that %s declares %s", page, file, text)
				}
			}
		}
	}
	return names
}

// declarations returns the names that a Go file declares at its top level, with its
// types' methods and fields as Type.Name.
var declarations = once(func(file string) (map[string]bool, error) {
	all := map[string]bool{}
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(Root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			all[name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						all[name.Name] = true
					}
				case *ast.TypeSpec:
					all[spec.Name.Name] = true
					for _, member := range members(spec.Type) {
						all[spec.Name.Name+"."+member] = true
					}
				}
			}
		}
	}
	return all, nil
})

func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}

func members(of ast.Expr) (names []string) {
	var fields *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		fields = of.Methods
	default:
		return nil
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// The map names every folder that holds Go files. Programs and what the
// comparisons consist of are not listed one by one.
func TestTheMapNamesEveryFolder(t *testing.T) {
	t.Parallel()
	text := Read(t, "maintain/map.md")
	folders := map[string]bool{}
	must.OK(t, filepath.WalkDir(Root, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && file != Root || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(file, ".go") {
			folder, _ := filepath.Rel(Root, filepath.Dir(file))
			folders[filepath.ToSlash(folder)] = true
		}
		return err
	}))
	for folder := range folders {
		if strings.HasPrefix(folder, "examples/") || strings.HasPrefix(folder, "bench/") {
			continue
		}
		if !strings.Contains(text, "`"+folder+"/`") {
			t.Errorf("map.md does not name %s/", folder)
		}
	}
	if len(folders) < 20 {
		t.Errorf("only %d folders hold Go files", len(folders))
	}
}

// undrawn are folders that may import anything, and what they import is not drawn.
var undrawn = regexp.MustCompile(`^(examples|bench|internal/test|internal/suites|internal/newest)(/|$)`)

const module = "github.com/weblimit/weblimit/"

var (
	node = regexp.MustCompile(`(\w+)\["([^"]+)"\]`)
	edge = regexp.MustCompile(`(?m)^\s*(\w+)(?:\["[^"]+"\])? --> (\w+)`)
)

// The picture of map.md draws the imports that there are, and no others.
func TestTheMapDrawsTheImports(t *testing.T) {
	t.Parallel()
	_, picture, _ := strings.Cut(Read(t, "maintain/map.md"), "```mermaid\nflowchart")
	picture, _, _ = strings.Cut(picture, "\n```\n")
	rooms := map[string]string{} // by folder
	for _, found := range node.FindAllStringSubmatch(picture, -1) {
		for folder := range strings.FieldsSeq(found[2]) {
			rooms[strings.TrimSuffix(folder, "/")] = found[1]
		}
	}
	drawn := map[string]bool{}
	for _, found := range edge.FindAllStringSubmatch(picture, -1) {
		drawn[found[1]+" --> "+found[2]] = true
	}
	there := map[string]bool{}
	Sources(t, ".go", func(file, source string) {
		folder, _ := filepath.Rel(Root, filepath.Dir(file))
		from := roomOf(rooms, filepath.ToSlash(folder))
		if undrawn.MatchString(filepath.ToSlash(folder)) || strings.HasSuffix(file, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		if strings.Contains(file, "/internal/") && slices.ContainsFunc(parsed.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"testing"` }) {
			return // a suite for tests
		}
		for _, imported := range parsed.Imports {
			folder, ours := strings.CutPrefix(strings.Trim(imported.Path.Value, `"`), module)
			if ours && from == "" {
				t.Errorf("the picture of map.md does not have the folder of %s", file)
				return
			}
			if to := roomOf(rooms, folder); ours && to != from {
				if to == "" {
					t.Errorf("the picture of map.md lacks %s, which %s imports", folder, file)
				}
				there[from+" --> "+to] = true
			}
		}
	})
	for _, e := range slices.Sorted(maps.Keys(there)) {
		if !drawn[e] {
			t.Errorf("the picture of map.md lacks the import %s", e)
		}
	}
	for _, e := range slices.Sorted(maps.Keys(drawn)) {
		if !there[e] {
			t.Errorf("the picture of map.md draws %s, which nobody imports", e)
		}
	}
	if len(drawn) < 10 {
		t.Errorf("the picture of map.md has %d imports", len(drawn))
	}
}

// roomOf returns the room that a folder is in, "" if it is in none.
func roomOf(rooms map[string]string, folder string) string {
	for _, suites := range []string{"internal/test", "internal/suites"} {
		if folder == suites || strings.HasPrefix(folder, suites+"/") {
			return ""
		}
	}
	for ; folder != "."; folder = path.Dir(folder) {
		if room := rooms[folder]; room != "" {
			return room
		}
	}
	return ""
}
