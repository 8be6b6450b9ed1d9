package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var faceHead = regexp.MustCompile(`^# package (\S+): (\d+) exported names`)

// faces returns how many names each package exports, from the first lines of api/*.txt.
func faces(repository fs.FS) (table, error) {
	t := table{title: "exported names", head: []string{"names"}}
	lists, err := fs.Glob(repository, "api/*.txt")
	if err != nil {
		return t, err
	}
	for _, list := range lists {
		text, err := fs.ReadFile(repository, list)
		if err != nil {
			return t, err
		}
		found := faceHead.FindSubmatch(text)
		if found == nil {
			return t, fmt.Errorf("%s does not begin as `make api` writes it", list)
		}
		n, err := strconv.Atoi(string(found[2]))
		if err != nil {
			return t, err
		}
		t.rows = append(t.rows, row{string(found[1]), []int{n}})
	}
	slices.SortFunc(t.rows, func(a, b row) int { return strings.Compare(a.name, b.name) })
	return t, nil
}

// adapters lists lines and exported names of the adapters.
func adapters(lines, names table) table {
	t := table{title: "adapters", head: []string{"files", "lines", "names"}}
	for _, r := range lines.rows {
		if r.name != "nethttp" && (!strings.HasSuffix(r.name, "limit") || strings.Contains(r.name, "/")) {
			continue
		}
		counted := append(slices.Clone(r.values[:2]), 0)
		for _, named := range names.rows {
			if named.name == r.name {
				counted[2] = named.values[0]
			}
		}
		t.rows = append(t.rows, row{r.name, counted})
	}
	return t
}

// untyped counts the variables of type any in internal/seam.
func (h *house) untyped() (n int) {
	h.each(func(f *file) {
		if f.folder != "internal/seam" {
			return
		}
		for _, d := range f.parsed.Decls {
			declared, ok := d.(*ast.GenDecl)
			if !ok || declared.Tok != token.VAR {
				continue
			}
			for _, spec := range declared.Specs {
				of := spec.(*ast.ValueSpec)
				if named, ok := of.Type.(*ast.Ident); ok && named.Name == "any" {
					n += len(of.Names)
				}
			}
		}
	})
	return n
}
