// Package echotest is what the adapters for Echo 4 and Echo 5 pass besides the adapter suite. The twins
// differ in names and signatures; each describes them in a [Framework] and calls [Run].
//
// The package does not import Echo: users' `go mod tidy` would download both versions for users of
// either.
package echotest
