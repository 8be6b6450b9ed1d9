package api

import (
	"fmt"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// Face returns what pkg exports, one sorted line per name:
//
//	const MaxChecks = 64
//	func PerSecond(n int64) Limit
//	method (*Limiter) AllowKey(ctx context.Context, key string, cost int64) Decision
//	type Config struct
//	type Config struct, Store Store
//	type Store interface, Ping(ctx context.Context) error
//	var ErrNoBlocks error
//
// An alias of a type in another importable package is one line; the other package's
// list has the methods. What is promoted from an embedded exported type is not repeated.
func Face(pkg *types.Package) []string {
	f := &face{pkg: pkg, lines: map[string]bool{}}
	for _, name := range pkg.Scope().Names() {
		if object := pkg.Scope().Lookup(name); object.Exported() {
			f.object(object)
		}
	}
	return slices.Sorted(maps.Keys(f.lines))
}

// Names counts the lines of a face that are names of their own: all but struct fields.
func Names(face []string) (n int) {
	for _, line := range face {
		if !strings.HasPrefix(line, "type ") || !strings.Contains(line, " struct, ") {
			n++
		}
	}
	return n
}

// face collects the lines of one package.
type face struct {
	pkg   *types.Package
	lines map[string]bool
}

func (f *face) add(format string, args ...any) { f.lines[fmt.Sprintf(format, args...)] = true }

// text writes a type as the package's own source would.
func (f *face) text(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == f.pkg {
			return ""
		}
		return p.Name()
	})
}

// signature is everything in a function's declaration that follows its name.
func (f *face) signature(o types.Object) string {
	return strings.TrimPrefix(f.text(o.Type()), "func")
}

func (f *face) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		kind := ""
		if basic, ok := o.Type().(*types.Basic); !ok || basic.Info()&types.IsUntyped == 0 {
			kind = " " + f.text(o.Type())
		}
		f.add("const %s%s = %s", o.Name(), kind, o.Val())
	case *types.Var:
		f.add("var %s %s", o.Name(), f.text(o.Type()))
	case *types.Func:
		f.add("func %s%s", o.Name(), f.signature(o))
	case *types.TypeName:
		f.typeName(o)
	}
}

func (f *face) typeName(o *types.TypeName) {
	if !o.IsAlias() {
		f.define(o.Name(), f.text(o.Type()), o.Type())
		return
	}
	target := types.Unalias(o.Type())
	if alias, ok := o.Type().(*types.Alias); ok {
		target = alias.Rhs()
	}
	head := o.Name() + " = " + f.text(target)
	// Users cannot look into an internal package: its type is listed where it gets out.
	if named, ok := types.Unalias(target).(*types.Named); ok && named.Obj().Pkg() != nil && internal(named.Obj().Pkg().Path()) {
		f.define(o.Name(), head, named)
		return
	}
	f.add("type %s", head)
}

// define lists a type. head is its name with type parameters or what it is an alias of.
func (f *face) define(name, head string, t types.Type) {
	switch under := t.Underlying().(type) {
	case *types.Struct:
		f.add("type %s struct", head)
		f.fields(name, under)
	case *types.Interface:
		f.interfaceType(name, head, under)
		return
	default:
		f.add("type %s %s", head, f.text(under))
	}
	f.methods(name, t)
}

func (f *face) interfaceType(name, head string, t *types.Interface) {
	if !t.IsMethodSet() {
		f.add("type %s %s", head, f.text(t)) // a constraint
		return
	}
	f.add("type %s interface", head)
	for method := range t.Methods() {
		if method.Exported() {
			f.add("type %s interface, %s%s", name, method.Name(), f.signature(method))
		} else {
			f.add("type %s interface, unexported methods", name)
		}
	}
}

// fields lists exported fields, those of embedded unexported structs among them.
func (f *face) fields(name string, t *types.Struct) {
	for field := range t.Fields() {
		fieldType := field.Type()
		if pointer, ok := fieldType.(*types.Pointer); ok {
			fieldType = pointer.Elem()
		}
		inner, isStruct := fieldType.Underlying().(*types.Struct)
		switch {
		case field.Exported() && field.Embedded():
			f.add("type %s struct, embedded %s", name, f.text(field.Type()))
		case field.Exported():
			f.add("type %s struct, %s %s", name, field.Name(), f.text(field.Type()))
		case field.Embedded() && isStruct:
			f.fields(name, inner)
		}
	}
}

// methods lists the methods of t and *t, but for those of embedded exported types.
func (f *face) methods(name string, t types.Type) {
	ofValue := types.NewMethodSet(t)
	for selection := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		method := selection.Obj()
		if !method.Exported() {
			continue
		}
		if path := selection.Index(); len(path) > 1 && t.Underlying().(*types.Struct).Field(path[0]).Exported() {
			continue
		}
		star := "*"
		if ofValue.Lookup(method.Pkg(), method.Name()) != nil {
			star = ""
		}
		f.add("method (%s%s) %s%s", star, name, method.Name(), f.signature(method))
	}
}

// internal reports whether the package at path is one that users cannot import.
func internal(path string) bool { return strings.Contains("/"+path+"/", "/internal/") }
