package lent

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

type address struct{ Host string }

// Not parallel: it changes the environment.
func TestServersAreStartedOnce(t *testing.T) {
	t.Setenv(Variable, "")
	var starts atomic.Int32
	stop := must.Get(Serve(Servers{
		"redis":  func(what string) (any, error) { starts.Add(1); return address{"here" + what}, nil },
		"broken": func(string) (any, error) { return nil, errors.New("no such program") },
	}))(t)
	defer stop()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var a address
			if lent, err := Ask("redis", &a); err != nil || !lent || a.Host != "here" {
				t.Errorf("asked: %v, %v, %v", a, lent, err)
			}
		})
	}
	wg.Wait()
	check.Equal(t, "starts", starts.Load(), 1)
	var there address
	if lent, err := Ask("redis of another kind", &there); err != nil || !lent || there.Host != "hereof another kind" {
		t.Errorf("asked for another: %v, %v, %v", there, lent, err)
	}
	check.Equal(t, "starts", starts.Load(), 2)
	for name, want := range map[string]string{"broken": "no such program", "mysql": `no server is called "mysql"`} {
		if lent, err := Ask(name, new(address)); err == nil || !lent || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", name, lent, err, want)
		}
	}
	stop()
	if lent, err := Ask("redis", new(address)); lent || err != nil {
		t.Errorf("after the end: %v, %v", lent, err)
	}
}
