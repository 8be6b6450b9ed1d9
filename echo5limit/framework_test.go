package echo5limit_test

import (
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/internal/test/limittest"
)

func TestFramework(t *testing.T) {
	t.Parallel()
	limittest.RunFramework(t, func(_ testing.TB, app limittest.App) limittest.Server {
		e := echo.New()
		e.IPExtractor = echo.ExtractIPDirect()
		return buildOn(e, app)
	}, true)
}
