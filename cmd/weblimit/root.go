package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

type (
	reader = io.Reader
	writer = io.Writer
)

// The exit codes.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitDenied      = 3
	exitInterrupted = 130
)

// errDenied ends peek and explain with exitDenied. All has been said already.
var errDenied = errors.New("denied")

// usageError is a mistake in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// app is one call of the command.
type app struct {
	streams
	options
	text    *show.Out
	started bool // the command line was understood
}

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, s streams) int {
	a := &app{streams: s}
	a.text = &show.Out{W: s.out}
	if s.isTTY {
		a.text.Colour = s.env("NO_COLOR") == ""
		a.text.Width, _ = s.size()
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.input)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	complain := func(text string) { (&show.Out{W: s.err}).Line(show.Plain, "weblimit: "+text) }
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errDenied), errors.Is(err, errDiffers):
		return exitDenied
	case ctx.Err() != nil:
		complain("interrupted")
		return exitInterrupted
	}
	complain(oneLine(err))
	if mistake := (usageError{}); errors.As(err, &mistake) || !a.started {
		complain("see weblimit --help")
		return exitUsage
	}
	return exitError
}

// oneLine returns an error's text on one line.
func oneLine(err error) string {
	var lines []string
	for line := range strings.Lines(store.Reason(err)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), "?; ", "? ")
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "weblimit",
		Short: "See and change what rate limits do",
		Long: `weblimit shows who is denied and why, and resets, blocks and unblocks clients.

It asks an application that serves the page of package inspect:

  export WEBLIMIT_URL=https://app.example.com/ops/limits
  export WEBLIMIT_USER=ops WEBLIMIT_PASSWORD_FILE=~/.weblimit

or the Redis that the application's limits are in:

  export WEBLIMIT_REDIS=rediss://redis.example.com:6379

Straight on Redis it knows the limits that instances publish there. They do with
top.Config{Exchange: store.Exchange()}, once a limit has decided something.

What is kept in PostgreSQL by package quota has commands of its own: weblimit quota.
Files of limits have others, to check, compare and publish them: weblimit policy.

Exit codes: 0 all is well, 1 an error, 2 a mistake in how it was called,
3 peek and explain: the client is denied or blocked now; quota reconcile and
quota notices --dead: somebody should look, 130 interrupted.`,
		Example: `  weblimit top                            who is denied, live
  weblimit explain user:42                why user 42 is denied, and until when
  weblimit block user:42 --for 10m        deny all that user 42 asks
  weblimit peek user:42 || echo denied    in a script
  weblimit suggest                        which numbers would suit`,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }, // of no arguments: cobra refuses others
	}
	a.addSettings(root.PersistentFlags())
	root.SetFlagErrorFunc(a.flagError)
	root.AddCommand(
		a.topCommand(), a.peekCommand(), a.explainCommand(), a.resetCommand(), a.blockCommand(), a.unblockCommand(),
		a.blocksCommand(), a.suggestCommand(), a.quotaCommand(), a.policyCommand(), a.versionCommand(),
	)
	a.noteStart(root.Commands())
	return root
}

// noteStart has commands note that the command line was understood.
func (a *app) noteStart(commands []*cobra.Command) {
	for _, c := range commands {
		inner := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			a.started = true
			if err := a.read(); err != nil && c.Name() != "version" { // which is asked for when settings are wrong
				return err
			}
			return inner(c, args)
		}
		a.noteStart(c.Commands())
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.writeJSON(fmt.Appendf(nil, `{"version":%q}`, core.Version()))
			}
			a.text.Line(show.Plain, "weblimit "+core.Version())
			return nil
		},
	}
}

// writeJSON writes an answer as JSON.
func (a *app) writeJSON(text []byte) error {
	safe, err := show.JSON(text)
	if err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	_, err = a.out.Write(safe)
	return err
}
