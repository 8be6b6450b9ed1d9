// Package memstore is the store in memory: it keeps the state of limits in one process.
// core.NewMemory returns its [Store].
//
// A store is up to 4096 shards, each a mutex and an open-addressing table. A key's hash
// chooses the shard, so all limits of a key are decided under one lock. How limits count
// is the business of package counting: memstore reads a counting.State from its table, has it
// decided, and writes it back.
package memstore
