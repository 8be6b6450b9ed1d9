package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// arrows counts, for each room of several files, the arrows between these, and how many of them run upward.
func (h *house) arrows() (table, error) {
	t := table{title: "arrows between files of a package", head: []string{"files", "arrows", "upward"}}
	c, err := h.newChecker()
	if err != nil {
		return t, err
	}
	for _, r := range h.rooms {
		if len(r.files) < 2 {
			continue
		}
		targets := c.between(r)
		all := 0
		for _, to := range targets {
			all += len(to)
		}
		t.rows = append(t.rows, row{r.folder, []int{len(r.files), all, upward(targets)}})
	}
	return t, nil
}

// checker type-checks rooms from their source. It is also what they import each other and other packages by.
type checker struct {
	house    *house
	rooms    map[string]*room // by import path
	checked  map[string]*types.Package
	uses     map[string]map[*ast.Ident]types.Object // by folder
	standard types.Importer
}

func (h *house) newChecker() (*checker, error) {
	c := &checker{
		house: h, rooms: map[string]*room{}, checked: map[string]*types.Package{},
		uses: map[string]map[*ast.Ident]types.Object{},
	}
	imported := map[string]bool{}
	for _, r := range h.rooms {
		c.rooms[path.Join(h.module, r.folder)] = r
		for _, f := range r.files {
			for _, spec := range f.parsed.Imports {
				imported[strings.Trim(spec.Path.Value, `"`)] = true
			}
		}
	}
	var err error
	c.standard, err = standardLibrary(imported)
	return c, err
}

// between returns, for each file of a room, the others that it has arrows to.
func (c *checker) between(r *room) map[string][]string {
	where := path.Join(c.house.module, r.folder)
	c.check(where, r)
	file := func(at token.Pos) string { return filepath.Base(c.house.set.Position(at).Filename) }
	targets := map[string][]string{}
	for _, f := range r.files {
		targets[f.name] = nil
	}
	for used, object := range c.uses[where] {
		if object.Pkg() == nil || object.Pkg().Path() != where || !belongs(object) {
			continue
		}
		from, to := file(used.Pos()), file(object.Pos())
		if from != to && !slices.Contains(targets[from], to) {
			targets[from] = append(targets[from], to)
		}
	}
	return targets
}

// belongs reports whether an object is one of a file: declared at its top level, or a method.
func belongs(object types.Object) bool {
	if object.Parent() == object.Pkg().Scope() {
		return true
	}
	function, ok := object.(*types.Func)
	return ok && function.Signature().Recv() != nil
}

// Import returns a room, a package of the standard library, or for others an empty package.
func (c *checker) Import(where string) (*types.Package, error) {
	if r := c.rooms[where]; r != nil {
		return c.check(where, r), nil
	}
	if isStandard(where) {
		return c.standard.Import(where)
	}
	if c.checked[where] == nil {
		c.checked[where] = types.NewPackage(where, path.Base(where))
		c.checked[where].MarkComplete()
	}
	return c.checked[where], nil
}

// check type-checks a room once. It passes over errors: what came from empty packages has no type.
func (c *checker) check(where string, r *room) *types.Package {
	if done := c.checked[where]; done != nil {
		return done
	}
	var parsed []*ast.File
	for _, f := range r.files {
		if builds(f) {
			parsed = append(parsed, f.parsed)
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: c, Error: func(error) {}}
	checked, _ := config.Check(where, c.house.set, parsed, info)
	c.checked[where], c.uses[where] = checked, info.Uses
	return checked
}

// builds reports whether a file is part of its package on Linux, wherever the figures are made.
func builds(f *file) bool {
	linux := build.Default
	linux.GOOS, linux.GOARCH = "linux", "amd64"
	linux.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.source)), nil }
	ok, err := linux.MatchFile(f.folder, f.name)
	return ok && err == nil
}

// isStandard reports whether a package is of the standard library.
func isStandard(where string) bool {
	first, _, _ := strings.Cut(where, "/")
	return !strings.Contains(first, ".")
}

// standardLibrary imports packages of the standard library as the compiler exports them, of which the build cache has most.
func standardLibrary(imported map[string]bool) (types.Importer, error) {
	args := []string{"list", "-export", "-json=ImportPath,Export"}
	for where := range imported {
		if isStandard(where) && where != "unsafe" && where != "C" {
			args = append(args, where)
		}
	}
	exports := map[string]string{}
	if len(args) > 3 {
		cmd := exec.Command("go", args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
			var listed struct{ ImportPath, Export string }
			if err := decoder.Decode(&listed); err != nil {
				return nil, err
			}
			exports[listed.ImportPath] = listed.Export
		}
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(where string) (io.ReadCloser, error) {
		return os.Open(exports[where])
	}), nil
}
