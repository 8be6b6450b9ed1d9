package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// house is the product: what users can import or run, without tests.
type house struct {
	module string // the path of the main module
	set    *token.FileSet
	rooms  []*room // by folder
}

// room is a folder with Go files.
type room struct {
	folder string
	files  []*file // by name
}

// file is one file of Go.
type file struct {
	folder, name string
	source       []byte
	parsed       *ast.File
}

func (f *file) path() string { return path.Join(f.folder, f.name) }

// around are folders that are not the product.
var around = []string{"internal/test", "internal/suites", "internal/newest", "examples", "bench"}

// passed are folders of any place that are not read.
var passed = []string{"testdata", "node_modules", "vendor"}

var modulePath = regexp.MustCompile(`(?m)^module (\S+)`)

// read parses the product.
func read(repository fs.FS) (*house, error) {
	text, err := fs.ReadFile(repository, "go.mod")
	if err != nil {
		return nil, err
	}
	named := modulePath.FindSubmatch(text)
	if named == nil {
		return nil, errors.New("go.mod does not name its module")
	}
	h := &house{module: string(named[1]), set: token.NewFileSet()}
	rooms := map[string]*room{}
	err = fs.WalkDir(repository, ".", func(at string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err == nil && entry.IsDir() && (slices.Contains(around, at) || slices.Contains(passed, name) || name[0] == '.' && at != ".") {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		f := &file{folder: path.Dir(at), name: name}
		if f.source, err = fs.ReadFile(repository, at); err != nil {
			return err
		}
		if f.parsed, err = parser.ParseFile(h.set, at, f.source, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		r := rooms[f.folder]
		if r == nil {
			r = &room{folder: f.folder}
			rooms[f.folder] = r
			h.rooms = append(h.rooms, r)
		}
		r.files = append(r.files, f)
		return nil
	})
	slices.SortFunc(h.rooms, func(a, b *room) int { return strings.Compare(a.folder, b.folder) })
	return h, err
}

// each calls visit with every file.
func (h *house) each(visit func(*file)) {
	for _, r := range h.rooms {
		for _, f := range r.files {
			visit(f)
		}
	}
}
