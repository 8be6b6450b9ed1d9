package policy

import (
	"slices"
	"strconv"

	"github.com/weblimit/weblimit/internal/spelling"
)

// kind is what a node of a file is.
type kind uint8

const (
	kindNull kind = iota
	kindText
	kindInteger
	kindNumber
	kindBoolean
	kindList
	kindObject
)

// with its article, for messages.
var kindNames = [...]string{"nothing", "text", "a whole number", "a number", "true or false", "a list", "a map of fields"}

// node is a value of a file and where it stands. YAML and JSON look the same from here.
type node struct {
	kind         kind
	line, column int
	text         string   // of a scalar, as written
	fields       []member // of an object, in the order of the file
	items        []*node  // of a list
	broken       []string // fields, or "" for items, with a problem: they are left out

	bad  bool   // it or something in it has a problem
	in   *node  // the object or list that it is in
	name string // its field in it
	at   int    // or its place in it, from 0
}

// member is a field of an object.
type member struct {
	key   *node // its text is the name
	value *node
}

// get returns a field, or nil.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for i := range n.fields {
		if n.fields[i].key.text == name {
			return n.fields[i].value
		}
	}
	return nil
}

// lost reports whether a field is there but can't be used.
func (n *node) lost(name string) bool { return slices.Contains(n.broken, name) }

// path returns where the node is, such as "policies.api.bypass[0]".
func (n *node) path() string {
	switch {
	case n.in == nil:
		return ""
	case n.name == "":
		return n.in.path() + "[" + strconv.Itoa(n.at) + "]"
	}
	name := n.name
	for _, c := range name {
		if c <= ' ' || c > '~' || c == '.' {
			name = strconv.Quote(name)
			break
		}
	}
	if before := n.in.path(); before != "" {
		return before + "." + name
	}
	return name
}

// hidden reports whether the node stands where a secret is meant, so that it must not be shown, whatever
// else is wrong with it.
func (n *node) hidden() bool {
	for ; n != nil && n.in != nil; n = n.in {
		switch n.name {
		case "key_secret", "tokens", "token", "secret", "secrets", "password":
			if !slices.Contains([]string{"policies", "groups", "limits", "fallback"}, n.in.name) { // names that the file chooses
				return true
			}
		}
	}
	return false
}

// shown returns text of the node for a message.
func (n *node) shown(text string) string {
	if n.hidden() {
		return "this"
	}
	return spelling.Quote(text)
}

// isTrue reports whether the node is there, and true.
func (n *node) isTrue() bool { return n != nil && n.text == "true" }

// integer returns the number of a checked node, or 0 if it is not there.
func (n *node) integer() int64 {
	if n == nil {
		return 0
	}
	i, _ := strconv.ParseInt(n.text, 10, 64) // the shape has checked it
	return i
}

func (n *node) number() float64 {
	if n == nil {
		return 0
	}
	f, _ := strconv.ParseFloat(n.text, 64) // the shape has checked it
	return f
}

// string returns the text of a checked node, or "" if it is not there.
func (n *node) string() string {
	if n == nil {
		return ""
	}
	return n.text
}

// texts returns the texts of a list.
func (n *node) texts() []string {
	if n == nil {
		return nil
	}
	all := make([]string, len(n.items))
	for i, item := range n.items {
		all[i] = item.text
	}
	return all
}
