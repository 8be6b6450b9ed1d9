package main

// Command is the program, for tests of what it says before it serves.
var Command = command

// InheritedRows are the rows of docs/service/envoy.md about variables of envoyproxy/ratelimit.
var InheritedRows = inheritedRows
