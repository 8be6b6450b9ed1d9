package documents

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

var makesLimit = regexp.MustCompile(`(?m)^(?:func |method \((Limit)\) )(\w+)\(.*\) Limit$`)

// The documentation of core.Limit names every constructor and decorator: that list is where
// users look for them.
func TestLimitNamesItsConstructorsAndDecorators(t *testing.T) {
	t.Parallel()
	face := must.Get(os.ReadFile(filepath.Join(Root, "api/core.txt")))(t)
	text := typeDoc(t, "core/limit.go", "Limit")
	names := makesLimit.FindAllStringSubmatch(string(face), -1)
	for _, found := range names {
		name := strings.TrimPrefix(found[1]+"."+found[2], ".")
		if !strings.Contains(text, "["+name+"]") {
			t.Errorf("the documentation of core.Limit does not name [%s]", name)
		}
	}
	if len(names) < 35 {
		t.Errorf("only %d constructors and decorators are in the list of exported names", len(names))
	}
}

var makesKey = regexp.MustCompile(`(?m)^func (\w+)\(.*\) (?:Func|Condition|Strategy)$`)

// The documentation of package keyfuncs names every key, condition and strategy: that list is
// where users choose.
func TestKeyfuncsNamesItsConstructors(t *testing.T) {
	t.Parallel()
	face := must.Get(os.ReadFile(filepath.Join(Root, "api/keyfuncs.txt")))(t)
	doc := must.Get(os.ReadFile(filepath.Join(Root, "keyfuncs/doc.go")))(t)
	page := Read(t, "use/keys.md") + Read(t, "use/exemptions.md") + Read(t, "run/proxies.md")
	names := makesKey.FindAllStringSubmatch(string(face), -1)
	for _, found := range names {
		if !strings.Contains(string(doc), "["+found[1]+"]") {
			t.Errorf("the documentation of keyfuncs does not name [%s]", found[1])
		}
		if !strings.Contains(page, found[1]) {
			t.Errorf("no page of docs about keys, exemptions and proxies names %s", found[1])
		}
	}
	if len(names) < 30 {
		t.Errorf("only %d constructors are in the list of exported names", len(names))
	}
}

// typeDoc returns the documentation of a type that a Go file declares.
func typeDoc(t *testing.T, file, name string) string {
	t.Helper()
	parsed := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(Root, file), nil, parser.ParseComments|parser.SkipObjectResolution))(t)
	for _, d := range parsed.Decls {
		if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.TYPE && d.Specs[0].(*ast.TypeSpec).Name.Name == name {
			return d.Doc.Text()
		}
	}
	t.Fatalf("%s does not declare %s", file, name)
	return ""
}
