package adapter

import (
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
)

// door is what core offers to this package and to internal/compose.
var door = seam.Enter[core.Config, core.Decision, core.Header, core.Limit, core.Limiter, core.LimitResult, core.Outcome, core.Reason, core.Warning]()
