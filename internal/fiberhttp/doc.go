// Package fiberhttp holds what the adapters of Fiber share. It imports neither Fiber nor fasthttp, so
// that it works with every version of both.
package fiberhttp
