package adapter

import (
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Work is a request that a [core.Load] measures. Its methods are safe for concurrent use:
//
//   - Wait notes that the request waits for its client until Resume is called as often;
//   - End counts the request out, and the first call counts;
//   - Forget counts it out and ignores how long it took, when a handler takes over the
//     connection.
type Work = seam.Work

// Begin begins to measure a request. Call End when its handler returns, by a panic too.
func Begin(load *core.Load, r keyfuncs.Request) Work { return begin(load, r) }
