package fiberlimit

import (
	"os"
	"testing"

	"github.com/weblimit/weblimit/internal/test/fibertest"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

func TestMain(m *testing.M) { os.Exit(fibertest.Main(m, framework)) }

// TestFiber is what this adapter has in common with that of another major.
func TestFiber(t *testing.T) { fibertest.Run(t, framework) }

var build = fibertest.Build(framework)

func TestSuite(t *testing.T)    { limittest.Run(t, "fiber", build, differences) }
func TestOutcomes(t *testing.T) { limittest.Outcomes(t, build, differences) }
func TestGuards(t *testing.T)   { limittest.RunGuards(t, "fiber", build, fibertest.Guards(framework)) }
func TestClosures(t *testing.T) { limittest.RunClosures(t, build, fibertest.Closures(framework)) }

func TestNewPanicsAtStartUp(t *testing.T) { exported.PanicsAtStartUp(t, framework.Name()) }

// Without a ProxyHeader Fiber takes the peer for the client.
func TestFramework(t *testing.T) { limittest.RunFramework(t, build, true) }
