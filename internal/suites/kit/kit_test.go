package kit_test

import (
	"testing"

	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/internal/suites/kit"
)

func TestOnEachFramework(t *testing.T) {
	t.Parallel()
	kit.OnEach(t, frameworks.All)
}

func TestInABubble(t *testing.T) {
	t.Parallel()
	kit.InABubble(t, frameworks.All)
}
