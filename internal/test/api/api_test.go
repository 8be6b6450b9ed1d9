package api

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
)

var update = flag.Bool("update", false, "write the lists instead of comparing them")

// A name cannot come, go or change unless the lists in the folder api do, too.
func TestFace(t *testing.T) {
	t.Parallel()
	packages := must.Get(Load(documents.Root))(t)
	folder := filepath.Join(documents.Root, "api")
	lists := must.Get(filepath.Glob(filepath.Join(folder, "*.txt")))(t)
	known := map[string]bool{}
	for path, pkg := range packages {
		list := filepath.Join(folder, strings.ReplaceAll(path, "/", "-")+".txt")
		known[list] = true
		lines := Face(pkg)
		head := fmt.Sprintf("# package %s: %d exported names, struct fields not counted", path, Names(lines))
		compare(t, list, append([]string{head}, lines...))
	}
	for _, list := range lists {
		if known[list] {
			continue
		}
		if !*update {
			t.Errorf("%s lists a package that does not exist; run `make api`", list)
		} else if err := os.Remove(list); err != nil {
			t.Error(err)
		}
	}
}

// compare fails the test unless the file at list holds lines. With -update it writes them.
func compare(t *testing.T, list string, lines []string) {
	if *update {
		check.OK(t, os.WriteFile(list, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		return
	}
	text, err := os.ReadFile(list)
	if err != nil {
		t.Errorf("an importable package has no list; run `make api`: %v", err)
		return
	}
	listed := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if slices.Equal(listed, lines) {
		return
	}
	t.Errorf("%s is not what the package exports. If the change is meant, run `make api` and commit the list with it:\n%s",
		list, difference(listed, lines))
}

// difference returns the lines of only one side, as diff marks them.
func difference(before, after []string) string {
	var b strings.Builder
	for _, line := range before {
		if !slices.Contains(after, line) {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			fmt.Fprintf(&b, "+ %s\n", line)
		}
	}
	if b.Len() == 0 {
		return "(the same lines in another order, or twice)"
	}
	return b.String()
}

// The source has one of each kind of declaration.
func TestFaceOfEachKind(t *testing.T) {
	t.Parallel()
	const hidden = `package hidden

type Entry struct { Key string }
func (*Entry) Renew() {}
`
	const sample = `package sample

import (
	"context"
	"time"

	"module/internal/hidden"
)

const Untyped, unseen = 64, 1
const (
	First Kind = iota
	Second
)
var ErrSample = context.Canceled
var unseenVar int
type Kind uint8
func (k Kind) String() string { return "" }
type Func func(key string) (value string, ok bool)
type Duration = time.Duration
type Entry = hidden.Entry
type Config struct {
	Timeout time.Duration
	private int
	context.Context
	inner
}
type inner struct { Promoted int }
func (*inner) Method() {}
func (inner) unseen() {}
func (c *Config) Set(values ...int) error { return nil }
type Store interface {
	context.Context
	Take(ctx context.Context) error
	unseen()
}
type Number interface { ~int | ~int64 }
type List[T any] struct { Items []T }
func (l List[T]) Len() int { return 0 }
func Map[T, U any](in []T, f func(T) U) []U { return nil }
func New(options ...func(*Config)) (*Config, error) { return nil, nil }
func unseenFunc() {}
`
	want := []string{
		`const First Kind = 0`,
		`const Second Kind = 1`,
		`const Untyped = 64`,
		`func Map[T, U any](in []T, f func(T) U) []U`,
		`func New(options ...func(*Config)) (*Config, error)`,
		`method (*Config) Method()`,
		`method (*Config) Set(values ...int) error`,
		`method (*Entry) Renew()`,
		`method (Kind) String() string`,
		`method (List) Len() int`,
		`type Config struct`,
		`type Config struct, Promoted int`,
		`type Config struct, Timeout time.Duration`,
		`type Config struct, embedded context.Context`,
		`type Duration = time.Duration`,
		`type Entry = hidden.Entry struct`,
		`type Entry struct, Key string`,
		`type Func func(key string) (value string, ok bool)`,
		`type Kind uint8`,
		`type List struct, Items []T`,
		`type List[T any] struct`,
		`type Number interface{~int | ~int64}`,
		`type Store interface`,
		`type Store interface, Deadline() (deadline time.Time, ok bool)`,
		`type Store interface, Done() <-chan struct{}`,
		`type Store interface, Err() error`,
		`type Store interface, Take(ctx context.Context) error`,
		`type Store interface, Value(key any) any`,
		`type Store interface, unexported methods`,
		`var ErrSample error`,
	}
	checker := checker(must.Get(load(documents.Root, []string{"context", "time"}))(t))
	checker.check(t, "module/internal/hidden", hidden)
	got := Face(checker.check(t, "module/sample", sample))
	if !slices.Equal(got, want) {
		t.Errorf("the lines differ:\n%s", difference(want, got))
	}
	if n := Names(got); n != len(want)-5 {
		t.Errorf("%d names, want all %d lines but 5 fields", n, len(want))
	}
}

// checker type-checks packages that may import those it has, by their paths, and has them from then on.
type checker map[string]*types.Package

func (c checker) Import(path string) (*types.Package, error) {
	if pkg, ok := c[path]; ok {
		return pkg, nil
	}
	return nil, fmt.Errorf("no package %s", path)
}

func (c checker) check(t *testing.T, path, source string) *types.Package {
	t.Helper()
	files := token.NewFileSet()
	file := must.Get(parser.ParseFile(files, path, source, 0))(t)
	c[path] = must.Get((&types.Config{Importer: c}).Check(path, files, []*ast.File{file}, nil))(t)
	return c[path]
}
