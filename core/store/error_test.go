package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/core/store"
)

func TestErrorOf(t *testing.T) {
	t.Parallel()
	failed := &store.Error{Class: store.ClassReadOnly, Node: "redis:6379"}
	other := errors.New("disk on fire")
	for name, test := range map[string]struct {
		err   error
		class store.Class
		node  string
	}{
		"the error of a store":        {failed, store.ClassReadOnly, "redis:6379"},
		"one that is wrapped":         {fmt.Errorf("charge: %w", failed), store.ClassReadOnly, "redis:6379"},
		"one of several":              {errors.Join(other, failed), store.ClassReadOnly, "redis:6379"},
		"of settlements":              {&store.Undone{Err: failed}, store.ClassReadOnly, "redis:6379"},
		"a deadline":                  {fmt.Errorf("dial: %w", context.DeadlineExceeded), store.ClassTimeout, ""},
		"anything else":               {other, store.ClassUnknown, ""},
		"an error without a class":    {&store.Error{Node: "redis:6379", Err: other}, store.ClassUnknown, "redis:6379"},
		"a deadline without a class":  {&store.Error{Err: context.DeadlineExceeded}, store.ClassTimeout, ""},
		"a request that was canceled": {context.Canceled, store.ClassUnknown, ""},
	} {
		if e := store.ErrorOf(test.err); e.Class != test.class || e.Node != test.node || !errors.Is(test.err, e) && !errors.Is(e, test.err) {
			t.Errorf("%s: got %+v, want %s of %q", name, e, test.class, test.node)
		}
	}
	if e := store.ErrorOf(nil); e != nil {
		t.Errorf("of no error: %v", e)
	}
}
