package store_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
)

// The line of an outage that begins has its first error, which has no second line. Not parallel: it sets the
// default logger.
func TestTheFirstErrorOfAnOutageIsOneLine(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	var registry store.Registry
	failed := func(class store.Class) {
		registry.Failed(&store.Error{Class: class, Node: "redis:6379", Err: errors.New("no answer")})
	}
	failed(store.ClassTimeout)
	check.Equal(t, "lines of one time-out", strings.Count(log.String(), "\n"), 1)
	check.Contains(t, "the line", log.String(), `msg="weblimit: outage began" class=timeout node=redis:6379`)
	failed(store.ClassReadOnly)
	check.Contains(t, "another error's line", log.String(), `msg="weblimit: store error" class=READONLY`)
}
