// Package memstore keeps the state of limits in this process. Its [Store] is what
// core.NewMemory returns.
package memstore
