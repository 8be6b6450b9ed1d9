// Package fibertest is what the adapters for Fiber 2 and Fiber 3 pass besides the adapter suite: how a
// limiter reads a request of fasthttp, finds the route that Fiber is going to choose, and lives with
// contexts and buffers that Fiber uses again. The twins differ in names and signatures; each describes
// them in a [Framework] and calls [Run].
//
// The package imports neither Fiber nor fasthttp: users' `go mod tidy` would download both for
// users of either.
package fibertest
