package main

import "strings"

// Command is the program, for tests of what it says before it serves. The first argument is what it was started as.
var Command = command

// InheritedNames are all variables of envoyproxy/ratelimit that the program knows.
func InheritedNames() (all []string) {
	for i := range inheritedVariables {
		all = append(all, strings.Fields(inheritedVariables[i].names)...)
	}
	return all
}

// InheritedRows are the rows of docs/service/envoy.md about variables of envoyproxy/ratelimit.
var InheritedRows = inheritedRows
