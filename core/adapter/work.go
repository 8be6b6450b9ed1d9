package adapter

import (
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Work is a request that a [core.Load] measures.
type Work = *core.Work

// Begin begins to measure a request. Call End when its handler returns, by a panic too.
func Begin(load *core.Load, r keyfuncs.Request) Work { return load.Begin(r) }
