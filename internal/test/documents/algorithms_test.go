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

	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/must"
)

// What readers look for has a line for each algorithm: its bound, its reading, its bucket, what Redis stores of it.
func TestEveryAlgorithmIsDescribed(t *testing.T) {
	t.Parallel()
	described := map[string]string{
		"core/redisstore/internal/script/lua/header.lua": string(must.Get(os.ReadFile(filepath.Join(Root, "core/redisstore/internal/script/lua/header.lua")))(t)),
		"the layout in Redis":                            between(Read(t, "maintain/layout.md"), "\n## In Redis\n", "\n## "),
	}
	for _, name := range []string{"Algorithm", "Reading", "Bucket"} {
		described["the doc of "+name] = docOf(t, "core", name)
	}
	plain := strings.NewReplacer(" ", "", "-", "")
	for where, text := range described {
		text = strings.ToLower(plain.Replace(text))
		if len(text) < 200 {
			t.Errorf("%s has only %q: is it still read?", where, text)
		}
		for _, algorithm := range counting.Algorithms() {
			name := strings.TrimSuffix(algorithm.String(), " window") // which lists leave out: fixed, calendar
			if !strings.Contains(text, plain.Replace(name)) {
				t.Errorf("%s says nothing about the %v", where, algorithm)
			}
		}
	}
}

// between returns what a text has from one string up to the next.
func between(text, from, to string) string {
	_, text, _ = strings.Cut(text, from)
	text, _, _ = strings.Cut(text, to)
	return text
}

// docOf returns the documentation of a type that a package of a folder declares.
func docOf(t *testing.T, folder, name string) (doc string) {
	t.Helper()
	Sources(t, ".go", func(file, source string) {
		if !strings.HasPrefix(file, filepath.Join(Root, folder)+"/") || !strings.Contains(source, "\ntype "+name+" ") {
			return
		}
		parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, source, parser.ParseComments|parser.SkipObjectResolution))(t)
		for _, d := range parsed.Decls {
			if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.TYPE && d.Specs[0].(*ast.TypeSpec).Name.Name == name {
				doc += d.Doc.Text()
			}
		}
	})
	return doc
}

// algorithmNamed is one that counts units per window, where it is not the algorithm of a rule that is made there.
var algorithmNamed = regexp.MustCompile(`(^|[^:] )[^ ]*\bstore\.(TokenBucket|FixedWindow|SlidingWindow|SlidingLog)\b`)

// Code that treats one algorithm otherwise than another is where a new algorithm may be forgotten: the section of
// changes.md names each such file, so that whoever adds one looks at all of them. What asks only whether a limit is one
// of slots or of calendar periods is not concerned by an algorithm that is neither.
func TestThePageNamesWhereAlgorithmsDiffer(t *testing.T) {
	t.Parallel()
	section := between(Read(t, "maintain/changes.md"), "\n## A new algorithm\n", "\n## ")
	Sources(t, ".go", func(path, source string) {
		file := must.Get(filepath.Rel(Root, path))(t)
		if strings.HasSuffix(file, "_test.go") || undrawn.MatchString(filepath.Dir(file)) {
			return
		}
		for line := range strings.Lines(source) {
			code, _, _ := strings.Cut(line, "//")
			if algorithmNamed.MatchString(code) && !strings.Contains(section, "`"+file+"`") {
				t.Errorf("the table \"A new algorithm\" of changes.md does not name %s, which has %s", file, strings.TrimSpace(line))
				break
			}
		}
	})
}
