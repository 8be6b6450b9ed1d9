package compose

import (
	"maps"
	"slices"

	"github.com/weblimit/weblimit/core"
)

// Clone returns a copy of a configuration that shares no slice and no map with it, for code that keeps one.
func Clone(c core.Config) core.Config {
	c.Limits, c.Bypass, c.Silence = slices.Clone(c.Limits), slices.Clone(c.Bypass), slices.Clone(c.Silence)
	c.Fallback.Limits, c.Details = slices.Clone(c.Fallback.Limits), maps.Clone(c.Details)
	return c
}
