package compose

import (
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// PeekRequest is [core.Limiter.PeekRequest]. keyed is told the key of each result whose key is a user, a tenant or an
// API key: others may be shared by clients. A key is valid during the call only. Nothing is told by a limiter that has
// somebody else decide, which does not know the keys.
func PeekRequest(l *core.Limiter, r keyfuncs.Request, cost int64, keyed func(result int, key []byte)) (core.Decision, error) {
	return door.Peek(l, r, cost, keyed)
}
