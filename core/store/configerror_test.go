package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
)

// A configuration's error names the project once and each place, and what is wrong can be had without them.
func TestConfigErrorsNest(t *testing.T) {
	t.Parallel()
	cause := errors.New("weblimit: keyfuncs.Header: no name")
	limit := store.AtLimit("api", cause)
	outer := fmt.Errorf("start: %w", &store.ConfigError{Path: "Config.Fallback", Err: limit})
	check.Equal(t, "a limit", limit.Error(), `weblimit: limit "api": keyfuncs.Header: no name`)
	check.Equal(t, "nested", outer.Error(), `start: weblimit: Config.Fallback: limit "api": keyfuncs.Header: no name`)
	check.Equal(t, "the reason", store.Reason(limit), `limit "api": keyfuncs.Header: no name`)
	all := errors.Join(fmt.Errorf("weblimit: quota: %w", limit), cause)
	check.Equal(t, "the reason of several", store.Reason(all), "quota: limit \"api\": keyfuncs.Header: no name\nkeyfuncs.Header: no name")
	var of *store.ConfigError
	if !errors.As(outer, &of) || of.Path != "Config.Fallback" || !errors.Is(outer, cause) {
		t.Errorf("%#v", of)
	}
}
