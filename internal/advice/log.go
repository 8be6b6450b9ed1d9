package advice

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Log writes the advice of one limiter: each kind once per process, whichever limiter has noticed it.
type Log struct {
	logger   *slog.Logger // nil for the default at the time
	silenced []Code
}

const link = "https://github.com/weblimit/weblimit/blob/main/docs/run/advice.md#"

// Given holds the advice that this process has logged. Tests clear it.
var Given sync.Map // of about

// about is what advice is logged once for: a kind, or a kind for one limit.
type about struct {
	code  Code
	limit string
}

// say logs a kind of advice, if nobody has yet and it is not silenced.
func (l *Log) say(code Code, problem string) { l.sayOf("", code, problem) }

// sayOf is say for a kind that is logged once per limit.
func (l *Log) sayOf(limit string, code Code, problem string) {
	if l.silences(code) {
		return
	}
	if _, before := Given.LoadOrStore(about{code, limit}, true); !before {
		l.write(code, problem)
	}
}

func (l *Log) silences(code Code) bool { return slices.Contains(l.silenced, code) }

func (l *Log) write(code Code, problem string) {
	logger := l.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(context.Background(), slog.LevelWarn, "weblimit: "+problem,
		slog.String("code", string(code)), slog.String("see", link+strings.ToLower(string(code))))
}
