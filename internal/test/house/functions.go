package main

import (
	"go/ast"
	"slices"
)

// longest is how many lines a function can have before it needs a reason: see long_test.go.
const longest = 60

// functions lists those above 60 lines, the longest first, as "core/limiter.go: Limiter.decide".
func (h *house) functions() table {
	t := table{title: "functions above 60 lines", head: []string{"lines"}}
	h.each(func(f *file) {
		for _, d := range f.parsed.Decls {
			declared, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := h.set.Position(declared.End()).Line - h.set.Position(declared.Pos()).Line + 1
			if n > longest {
				t.rows = append(t.rows, row{f.path() + ": " + functionName(declared), []int{n}})
			}
		}
	})
	slices.SortStableFunc(t.rows, func(a, b row) int { return b.values[0] - a.values[0] })
	return t
}

// functionName returns the name of a function, or of a method with its type: Limiter.decide.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return receiver(d.Recv.List[0].Type) + "." + d.Name.Name
}

func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}
