package fiberhttp

import "github.com/weblimit/weblimit/internal/seam"

// Unwritten is a core.Header that an adapter knows to have none of the headers that limiters write,
// so that adapter.SetHeaders need not look for those of another limiter. Names are in canonical form.
type Unwritten = seam.Unwritten
