package core

import (
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
)

// Store holds the state of limits: a [Memory] for one process, a redisstore.Store for many. Both
// give the same answers. Packages core/store and core/store/counting have what authors of stores need.
type Store = store.Store

// Memory is a [Store] in this process. It is exact, and its state ends with the process.
type Memory = memstore.Store

// NewMemory returns an empty store in memory:
//
//	core.NewMemory()
//	core.NewMemory(memstore.Config{MaxBuckets: 10_000})
//
// It panics if there is more than one Config, or if the Config holds a value that makes
// no sense; its fields say which.
func NewMemory(config ...memstore.Config) *Memory { return memstore.New(config...) }

// Check asks whether one limit lets one key spend a cost.
type Check = store.Check

// Result is a store's answer to one Check.
type Result = store.Result

// Rule is a limit's name and numbers, as a store decides by them; see [Limit.Rule].
type Rule = store.Rule

// Block says when a limit blocks a client that exceeds it again and again, and for
// how long; see [Limit.Penalty].
type Block = store.Block

// Event is a change in a store's health. OnEvent of the store and [Observer] report events. Package store has their kinds.
type Event = store.Event
