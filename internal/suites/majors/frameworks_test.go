package majors

import "github.com/weblimit/weblimit/internal/suites/frameworks"

// newer are the newer majors, whose applications are copies of those of the older ones.
var newer = []frameworks.Framework{{Name: "Echo", New: newEcho}, {Name: "Fiber", New: newFiber}}
