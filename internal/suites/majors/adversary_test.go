package majors

import (
	"testing"

	"github.com/weblimit/weblimit/internal/suites/adversary"
)

var attacked = []*adversary.Framework{
	{Name: "echo", Dialect: adversary.OverNetHTTP("echo"), HTTP2: true, Serve: adversary.ServeStd(adversary.Std(newer[0]))},
	{Name: "fiber", Dialect: adversary.OverFastHTTP171(false), Serve: serveFiber("/")},
	{Name: "fiber, star", Dialect: adversary.OverFastHTTP171(true), Serve: serveFiber("*")},
}

func TestRawRequests(t *testing.T) {
	t.Parallel()
	adversary.Requests(t, attacked)
}

func TestRawFrames(t *testing.T) {
	t.Parallel()
	adversary.Frames(t, attacked)
}
