// Command service shows the limiter as a service: one policy file, a service that decides by it in memory,
// and two applications that ask it. One is in Go and takes an adapter; the other asks by HTTP, as a program
// in any language would. They share the limits.
//
// The application is in the folder server, a module of its own, so that the module of weblimit does not
// require the reader of policy files. This program only builds and runs it.
package main

import "github.com/weblimit/weblimit/examples/internal/launch"

func main() { launch.Main("service") }
