package majors

import (
	"testing"

	"github.com/weblimit/weblimit/internal/suites/kit"
)

func TestTheKit(t *testing.T) {
	t.Parallel()
	kit.OnEach(t, newer)
}

func TestTheKitInABubble(t *testing.T) {
	t.Parallel()
	kit.InABubble(t, newer)
}
