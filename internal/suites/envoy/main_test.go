package envoy

import (
	"os"
	"testing"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
