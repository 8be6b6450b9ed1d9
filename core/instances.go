package core

import (
	"context"

	"github.com/weblimit/weblimit/internal/seam"
)

// The types that core shares with core/adapter and internal/compose, instantiated with its own.
type (
	asked    = seam.Ask[Decision, Limiter, Warning]
	making   = seam.Making[Limiter, LimitResult, Reason]
	question = seam.Question
	verdict  = seam.Verdict[LimitResult, Reason]
)

// remote asks somebody else to decide.
type remote func(ctx context.Context, q question) (verdict, error)
