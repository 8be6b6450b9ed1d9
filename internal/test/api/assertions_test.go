package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
)

// asserted are the places where a value of an exported interface is asked for more than the interface says. What
// wraps such a value by embedding the interface hides it there, so each has a reason why nothing is lost.
var asserted = map[string]string{
	"core: Observer is observers":                 "each of several hears what the wrapper passes on",
	"core: Header is lines":                       "documented at core.Header: what wraps an http.Header embeds that",
	"core: Header is interface{Del(name string)}": "documented at core.Header: what wraps an http.Header embeds that",
	"core: Header is seam.HeaderMap":              "the shorter way to the same headers",
	"core: Header is seam.Unwritten":              "the shorter way to the same headers",
	"core: Store is *Memory":                      "the shorter way to the same decisions",
	"core/store/counting: Store is Restorer":      "RestorerOf asks the registry of the store in a wrapper",
	"keyfuncs: Request is *Reading":               "a limiter's own wrapper, found in others by RequestKey",
	"keyfuncs: Request is T":                      "As, which finds the adapter's own request in a wrapper by RequestKey",
	"service/envoy: Source is Acknowledger":       "documented at envoy.Acknowledger: what wraps one embeds that",
	"policy: Source is fileSource":                "Load makes it, and nobody can wrap it",
	"quota: Store is *noStore":                    "the book makes it, and nobody can wrap it",
	"echolimit: Request is *request":              "as that of ginlimit",
	"echo5limit: Request is *request":             "as that of ginlimit",
	"fiberlimit: Request is *request":             "as that of ginlimit",
	"fiber3limit: Request is *request":            "as that of ginlimit",
	"ginlimit: Request is request":                "adapter.Key and Matches give it the adapter's own request",
	"grpclimit: Request is *request":              "keyfuncs.Unwrap has found it in a wrapper",
}

// Whatever wraps a value of an exported interface by embedding it behaves as the value does: no code asks such a
// value for methods that the interface does not have, but in the places that are listed.
func TestWrappersLoseNothing(t *testing.T) {
	t.Parallel()
	var found []string
	for _, module := range must.Get(modules(documents.Root))(t) {
		for _, where := range must.Get(assertions(filepath.Join(documents.Root, module)))(t) {
			if !slices.Contains(found, where) {
				found = append(found, where)
			}
		}
	}
	for _, where := range found {
		if asserted[where] == "" {
			t.Errorf("%s: a wrapper loses that; make it part of the interface, or say at the interface how a wrapper passes it on, and list it here", where)
		}
	}
	for where := range asserted {
		check.Equal(t, where+": still there", slices.Contains(found, where), true)
	}
}

// assertions returns the type assertions and type switches in a module's packages whose operand is of an
// exported interface of ours.
func assertions(root string) (found []string, err error) {
	race, err := raceFlag()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", race, "-deps", "-export", "-json=ImportPath,Dir,GoFiles,Export,Module,DepOnly", "./...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", cmd, err)
	}
	type listed struct {
		ImportPath, Dir, Export string
		GoFiles                 []string
		DepOnly                 bool
	}
	var ours []listed
	exports := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p listed
		if err := decoder.Decode(&p); err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && !strings.Contains(p.ImportPath, "/internal/test") && !strings.Contains(p.ImportPath, "/internal/suites") {
			ours = append(ours, p)
		}
	}
	files := token.NewFileSet()
	imports := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range ours {
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			parsed = append(parsed, file)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		pkg, err := (&types.Config{Importer: imports}).Check(p.ImportPath, files, parsed, info)
		if err != nil {
			return nil, err
		}
		for _, file := range parsed {
			found = append(found, assertionsIn(pkg, file, info)...)
		}
	}
	return found, nil
}

const ourModule = "github.com/weblimit/weblimit"

func assertionsIn(pkg *types.Package, file *ast.File, info *types.Info) (found []string) {
	name := func(p *types.Package) string {
		if p == pkg {
			return ""
		}
		return p.Name()
	}
	note := func(operand ast.Expr, to types.Type) {
		named, ok := types.Unalias(info.Types[operand].Type).(*types.Named)
		if !ok || named.Obj().Pkg() == nil || !named.Obj().Exported() || !strings.HasPrefix(named.Obj().Pkg().Path(), ourModule) || internal(named.Obj().Pkg().Path()) {
			return
		}
		found = append(found, fmt.Sprintf("%s: %s is %s", strings.TrimPrefix(pkg.Path(), ourModule+"/"), named.Obj().Name(), types.TypeString(types.Unalias(to), name)))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeAssertExpr:
			if n.Type != nil {
				note(n.X, info.Types[n.Type].Type)
			}
		case *ast.TypeSwitchStmt:
			var operand ast.Expr
			switch s := n.Assign.(type) {
			case *ast.AssignStmt:
				operand = s.Rhs[0].(*ast.TypeAssertExpr).X
			case *ast.ExprStmt:
				operand = s.X.(*ast.TypeAssertExpr).X
			}
			for _, clause := range n.Body.List {
				for _, to := range clause.(*ast.CaseClause).List {
					note(operand, info.Types[to].Type)
				}
			}
		}
		return true
	})
	return found
}
