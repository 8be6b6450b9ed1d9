// Package scan reads chosen fields of JSON as it passes, cut into chunks at any byte. It keeps no part of the text but
// the name or short text that it is within, so its memory does not depend on what it reads. It is for text of others:
// whatever is not JSON ends its reading, and it never fails.
package scan

import "strings"

// Kind says what is wanted of a field.
type Kind uint8

// The kinds.
const (
	Number Kind = iota + 1 // a whole number: Sink.Number
	Length                 // how many bytes a string has: Sink.Length
	Short                  // a string of at most MaxShort bytes: Sink.Short
	Raw                    // the bytes of a string as they pass, escapes not decoded: Sink.Raw
)

// Field is a field that is wanted: where it is, what is wanted of it, and the number by which the Sink knows it.
// A path is made of names and of [] for each element of an array: "choices[].delta.content", "[].usage.output".
type Field struct {
	Path string
	Kind Kind
	ID   uint8
}

// Tree is a set of fields to look for. It does not change once it is made, so scanners share it.
type Tree struct{ root *node }

// node is a value at a place that leads to a wanted field, or is one.
type node struct {
	fields map[string]*node // of an object
	each   *node            // the elements of an array
	kind   Kind             // 0 if it only leads to others
	id     uint8
}

// NewTree returns the tree of some fields. It panics if a path is empty or there twice.
func NewTree(fields ...Field) *Tree {
	root := &node{}
	for _, f := range fields {
		n := root
		for _, name := range strings.Split(strings.ReplaceAll(f.Path, "[]", ".[]"), ".") {
			if name != "" {
				n = n.child(name)
			}
		}
		if n == root || n.kind != 0 {
			panic("weblimit: scan: the path " + f.Path + " is empty or there twice")
		}
		n.kind, n.id = f.Kind, f.ID
	}
	return &Tree{root}
}

func (n *node) child(name string) *node {
	if name == "[]" {
		if n.each == nil {
			n.each = &node{}
		}
		return n.each
	}
	if n.fields[name] == nil {
		if n.fields == nil {
			n.fields = map[string]*node{}
		}
		n.fields[name] = &node{}
	}
	return n.fields[name]
}

// folds reports whether a wanted name differs from this one only in its case, as some readers of JSON compare names.
func (n *node) folds(name []byte) bool {
	for field := range n.fields {
		if len(field) <= len(name) && strings.EqualFold(field, string(name)) {
			return true
		}
	}
	return false
}
