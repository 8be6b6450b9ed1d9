package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
)

// checker type-checks packages for one port.
type checker struct {
	files *token.FileSet
	sizes types.Sizes

	// checked are packages by what they are made of: a module that has another version of a dependency has
	// other packages.
	checked map[made]*types.Package
	ids     map[*types.Package]int
}

// made is what a package is made of: its folder, and the packages that it imports.
type made struct{ folder, imports string }

func newChecker(goarch string) *checker {
	return &checker{token.NewFileSet(), types.SizesFor("gc", goarch), map[made]*types.Package{}, map[*types.Package]int{types.Unsafe: 0}}
}

// module type-checks packages that are in order: each comes after what it imports.
func (c *checker) module(packages []listed) error {
	known := imports{"unsafe": types.Unsafe}
	for _, p := range packages {
		if p.ImportPath == "unsafe" {
			continue
		}
		of := made{folder: p.Dir}
		for _, path := range p.Imports {
			if pkg := known[path]; pkg != nil { // "C" is no package
				of.imports += fmt.Sprint(c.ids[pkg], " ")
			}
		}
		pkg := c.checked[of]
		if pkg == nil {
			var err error
			if pkg, err = c.check(p, known); err != nil {
				return err
			}
			c.checked[of] = pkg
			c.ids[pkg] = len(c.ids)
		}
		known[p.ImportPath] = pkg
	}
	return nil
}

func (c *checker) check(p listed, known imports) (*types.Package, error) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	var errs []error
	config := types.Config{
		Importer: renamed{known, p.ImportMap}, Sizes: c.sizes,
		IgnoreFuncBodies: p.Standard, // they belong to others, who have compiled them for every port
		Error:            func(err error) { errs = append(errs, err) },
	}
	if p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	pkg, _ := config.Check(p.ImportPath, c.files, files, nil) // its error is the first of errs
	return pkg, errors.Join(errs...)
}

// imports are packages by their paths.
type imports map[string]*types.Package

// renamed are the imports of a package, some of which have other paths in its source.
type renamed struct {
	imports
	names map[string]string
}

// Import implements types.Importer.
func (r renamed) Import(path string) (*types.Package, error) {
	if other, ok := r.names[path]; ok {
		path = other
	}
	if pkg := r.imports[path]; pkg != nil {
		return pkg, nil
	}
	return nil, fmt.Errorf("no package %s", path)
}
