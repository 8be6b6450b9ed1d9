package mutants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Variable is that of the environment which has the number of the mistake that woven code makes, from 1 on.
const Variable = "WRONG"

// weave writes what go's -overlay takes, and the changed files, to a folder: code that makes any of the mistakes,
// so that each package is compiled once and not once for each mistake. It returns the numbers of those that it has
// woven in. The others are not within one function, such as those of Lua and SQL, or in one that cannot be called
// again under another name.
//
// A function with a mistake stands beside the right one, which calls it when Variable says so.
func weave(root, dir string, all []Mutant) (path string, woven map[int]bool, err error) {
	files := make(map[string][]int)
	for i, m := range all {
		if strings.HasSuffix(m.File, ".go") {
			files[m.File] = append(files[m.File], i+1)
		}
	}
	replace := make(map[string]string)
	woven = make(map[int]bool)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		original, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", nil, err
		}
		source, err := os.ReadFile(original)
		if err != nil {
			continue // another checkout
		}
		text, pkg, done := weaveFile(source, files[name], all)
		if len(done) == 0 {
			continue
		}
		for _, n := range done {
			woven[n] = true
		}
		number := fmt.Sprintf("package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar wrongNow, _ = strconv.Atoi(os.Getenv(%q))\n", pkg, Variable)
		for file, text := range map[string]string{original: text, filepath.Join(filepath.Dir(original), "wrong_now.go"): number} {
			if replace[file] == "" { // a folder has one of the latter
				replace[file] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
			}
			if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
				return "", nil, err
			}
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, woven, os.WriteFile(path, overlay, 0o600)
}

// weaveFile weaves mistakes, by their numbers, into a file.
func weaveFile(source []byte, numbers []int, all []Mutant) (text, pkg string, done []int) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return "", "", nil
	}
	calls := make(map[int]string) // by offset: what is inserted there
	var wrong strings.Builder
	for _, n := range numbers {
		m := &all[n-1]
		if bytes.Count(source, []byte(m.Old)) != 1 {
			continue
		}
		right, twin, ok := m.twin(source, file, n)
		if !ok {
			continue
		}
		calls[offset(right.Body.Lbrace)+1] += call(right, n)
		wrong.WriteString("\n" + twin + "\n")
		done = append(done, n)
	}
	out, last := strings.Builder{}, 0
	for _, at := range slices.Sorted(maps.Keys(calls)) {
		out.Write(source[last:at])
		out.WriteString(calls[at])
		last = at
	}
	out.Write(source[last:])
	return out.String() + wrong.String(), file.Name.Name, done
}

// offset is that of a position in a set of one file.
func offset(p token.Pos) int { return int(p) - 1 }

// twin returns the function that has the mistake, and its text with the mistake and a name of its own.
func (m *Mutant) twin(source []byte, file *ast.File, n int) (right *ast.FuncDecl, text string, ok bool) {
	at := bytes.Index(source, []byte(m.Old))
	changed := bytes.Replace(source, []byte(m.Old), []byte(m.New), 1)
	mistaken, err := parser.ParseFile(token.NewFileSet(), "", changed, parser.SkipObjectResolution)
	if err != nil || len(mistaken.Decls) != len(file.Decls) {
		return nil, "", false
	}
	for i, decl := range file.Decls {
		right, is := decl.(*ast.FuncDecl)
		if !is || at < offset(right.Pos()) || at+len(m.Old) > offset(right.End()) {
			continue
		}
		wrong, is := mistaken.Decls[i].(*ast.FuncDecl)
		if !is || !callable(right) {
			return nil, "", false
		}
		name := offset(wrong.Name.Pos())
		text := string(changed[offset(wrong.Type.Pos()):name]) + wrongName(right, n) + string(changed[name+len(wrong.Name.Name):offset(wrong.End())])
		return right, text, true
	}
	return nil, "", false
}

// callable reports whether all that a function is called with has a name.
func callable(f *ast.FuncDecl) bool {
	fields := f.Type.Params.List
	if f.Recv != nil {
		fields = append(slices.Clone(f.Recv.List), fields...)
	}
	for _, field := range fields {
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, func(name *ast.Ident) bool { return name.Name == "_" }) {
			return false
		}
	}
	return f.Body != nil && (f.Recv != nil || f.Name.Name != "init" && f.Name.Name != "main")
}

func wrongName(f *ast.FuncDecl, n int) string { return f.Name.Name + "Wrong" + strconv.Itoa(n) }

// call returns the statement with which a function calls its twin.
func call(f *ast.FuncDecl, n int) string {
	var args []string
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			arg := name.Name
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	to := wrongName(f, n) + "(" + strings.Join(args, ", ") + ")"
	if f.Recv != nil {
		to = f.Recv.List[0].Names[0].Name + "." + to
	}
	if f.Type.Results != nil {
		return " if wrongNow == " + strconv.Itoa(n) + " { return " + to + " };"
	}
	return " if wrongNow == " + strconv.Itoa(n) + " { " + to + "; return };"
}
