// The command weblimit shows who is denied and why, and resets, blocks and unblocks clients, from a
// terminal. It asks an application's page (package inspect), or Redis itself.
//
//	weblimit top                      what each limit lets through and who is denied, live
//	weblimit peek KEY                 whether a client's next request passes
//	weblimit explain KEY              each limit's numbers, and why the last request was denied
//	weblimit reset KEY                forget what a client has used, and its blocks
//	weblimit block KEY --for 10m      deny all requests of a client
//	weblimit unblock KEY              lift blocks
//	weblimit blocks                   blocks in force
//	weblimit suggest [LIMIT]          a number for each limit, from what clients really use
//	weblimit quota reconcile          whether Redis has what PostgreSQL has, and why not
//	weblimit quota usage              who has used how much of limits that are kept in PostgreSQL
//	weblimit quota statement TENANT   what a tenant may use and has used, as a table, CSV or JSON
//	weblimit quota notices            notices on their way, and those that are given up
//	weblimit quota redeliver CHANNEL  deliver notices again
//	weblimit quota adjust TENANT      units more, or fewer, in one period
//	weblimit policy check FILE        what is wrong with a file of limits; also fmt, diff, test, schema
//	weblimit policy publish FILE      give a file to a fleet, in Redis or PostgreSQL
//	weblimit policy rollback          give a fleet the release before again
//	weblimit policy log               who has published what, and when; also status, get
//	weblimit version
//	weblimit completion SHELL         completion for bash, zsh, fish and powershell
//
// Which application or Redis:
//
//	export WEBLIMIT_URL=https://app.example.com/ops/limits
//	export WEBLIMIT_USER=ops WEBLIMIT_PASSWORD_FILE=~/.weblimit
//
//	export WEBLIMIT_REDIS=rediss://redis.example.com:6379
//
//	export WEBLIMIT_POSTGRES=postgres://ops@db.example.com/app?sslmode=verify-full
//
// Exit codes: 0 all is well; 1 an error; 2 a mistake in how it was called; 3 peek and explain: the
// client is denied or blocked now; quota reconcile and quota notices --dead: somebody should look;
// 130 interrupted.
//
// # What cobra is here for
//
// Completion for four shells, help for each command and suggestions for mistyped ones, in one
// library that kubectl, gh and docker share.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // time zones of calendar limits, on machines that have none

	"github.com/redis/go-redis/v9"
	"golang.org/x/term"
)

func main() { os.Exit(start()) }

func start() int {
	redis.SetLogger(quiet{}) // for the whole process, so before anything uses it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	return run(ctx, os.Args[1:], terminal())
}

// streams are what the command reads and writes.
type streams struct {
	in       *os.File // nil in tests
	input    reader
	out, err writer
	env      func(string) string
	isTTY    bool // out is a terminal
	asks     bool // input is a terminal, so that somebody can be asked
	size     func() (columns, rows int)
}

func terminal() streams {
	return streams{
		in: os.Stdin, input: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv,
		isTTY: term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb",
		asks:  term.IsTerminal(int(os.Stdin.Fd())),
		size: func() (columns, rows int) {
			columns, rows, err := term.GetSize(int(os.Stdout.Fd()))
			if err != nil {
				return 0, 0
			}
			return columns, rows
		},
	}
}
