package limittest

import (
	"context"
	"errors"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

var charges = []scenario{
	{"input and output are separate budgets", func(e *env) {
		budget := func(name string) core.Limit {
			return core.PerDay(1000).FixedWindow().By(keyfuncs.Everyone()).Named(name).Estimate(10)
		}
		settings := e.with(core.Config{})
		s := e.serve(App{
			Layers: []Layer{{With: settings, Limits: []core.Limit{budget("money")}}},
			Routes: []Route{
				{Method: "GET", Path: "/", Layers: []Layer{{With: settings, Limits: []core.Limit{
					budget("input"), budget("output"), all("plain", 99), budget("unused").When(keyfuncs.Methods("POST")),
				}}}, Handle: func(c Call) {
					for _, tt := range []struct {
						n          int64
						limits     []string
						err        string
						noEstimate bool
					}{
						{5, []string{"input"}, "", false},
						{100, []string{"output"}, "", false},
						{100, []string{"output", "output"}, "", false},
						{7, []string{"input", "money"}, "", false},
						{1, []string{"unused"}, "estimate", true},
						{1, []string{"unused", "input"}, "", false},
						{900, []string{"input", "outptu"}, `"outptu"`, false},
						{900, []string{"plain"}, `"plain"`, false},
						{900, []string{""}, `""`, false},
						{-1, []string{"input"}, "negative", false},
					} {
						err := c.Spend(tt.n, tt.limits...)
						if text := errorText(err); tt.err == "" && text != "" || !strings.Contains(text, tt.err) || errors.Is(err, core.ErrNoEstimate) != tt.noEstimate {
							e.Errorf("Spend(%d, %q): %v, want %q", tt.n, tt.limits, err, tt.err)
						}
					}
					hello(c)
				}},
				{Method: "GET", Path: "/free", Handle: func(c Call) {
					if err := c.Spend(3); err != nil { // all limits of the request
						e.Error(err)
					}
					hello(c)
				}},
			},
		})
		s.get("/")
		if err := settings.made.(interface{ Drain(context.Context) error }).Drain(e.Context()); err != nil {
			e.Error(err)
		}
		s.get("/free")
		if err := settings.made.(interface{ Drain(context.Context) error }).Drain(e.Context()); err != nil {
			e.Error(err)
		}
		r := s.get("/")
		e.remaining("5 + 7 + 1, and an estimate", r, "input", 1000-13-10)
		e.remaining("100 + 100, and an estimate", r, "output", 1000-200-10)
		e.remaining("7 + 3, and an estimate", r, "money", 1000-10-10)
	}},
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
