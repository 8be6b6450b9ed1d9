package echolimit_test

import (
	"os"
	"testing"

	"github.com/weblimit/weblimit/internal/test/echotest"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

// TestEcho is what this adapter has in common with that of another major.
func TestEcho(t *testing.T) { echotest.Run(t, framework) }

var build = echotest.Build(framework, echotest.Default)

func TestSuite(t *testing.T)    { limittest.Run(t, "echo", build) }
func TestOutcomes(t *testing.T) { limittest.Outcomes(t, build) }
func TestGuards(t *testing.T)   { limittest.RunGuards(t, "echo", build, echotest.Guards(framework)) }
func TestClosures(t *testing.T) { limittest.RunClosures(t, build, echotest.Closures(framework)) }

func TestFramework(t *testing.T) {
	limittest.RunFramework(t, echotest.Build(framework, echotest.Direct), true)
}

func TestNewPanicsAtStartUp(t *testing.T) { exported.PanicsAtStartUp(t, framework.Name()) }
