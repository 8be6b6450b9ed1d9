// The command weblimitd decides rate limits and quotas for other programs: one process, or several that
// share a Redis, by one policy file.
//
//	weblimitd --policy limits.yaml
//	weblimitd --policy limits.yaml --redis redis://localhost:6379
//
// weblimitd --help lists the settings. docs/service/weblimitd.md describes installation and operation.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	_ "time/tzdata" // calendar limits have time zones, and an image from scratch has none

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/settings"
	"github.com/weblimit/weblimit/cmd/weblimitd/internal/systemd"
	"github.com/weblimit/weblimit/core"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() { os.Exit(command(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

// command runs the program and returns its exit code.
func command(args, env []string, out, errs io.Writer) int {
	o := newOptions()
	rest, err := o.read(args, env)
	if errors.Is(err, settings.ErrHelp) {
		_, _ = io.WriteString(out, o.usage())
		return exitOK
	}
	if err == nil && len(rest) > 2 {
		err = errors.New("too many arguments")
	}
	if o.version || len(rest) > 0 && rest[0] == "version" {
		_, _ = fmt.Fprintf(out, "weblimitd %s %s %s/%s%s\n", core.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, revision())
		return exitOK
	}
	if err != nil {
		return fails(errs, exitUsage, err)
	}
	if len(rest) == 2 && rest[0] == "publish" {
		ctx, cancel := context.WithTimeout(context.Background(), reloadTimeout)
		defer cancel()
		if err := o.publish(ctx, rest[1], out); err != nil {
			return fails(errs, exitError, err)
		}
		return exitOK
	}
	if len(rest) > 0 {
		ask, known := questions[rest[0]]
		if !known {
			return fails(errs, exitUsage, errors.New("the commands are healthcheck, status, reload, rollback, publish FILE and version; settings begin with --"))
		}
		if o.check {
			return fails(errs, exitUsage, errors.New("--check is for the settings of an instance that would be started: leave out "+rest[0]))
		}
		where := ""
		if len(rest) == 2 {
			where = rest[1]
		}
		if err := o.ask(ask, where, out); err != nil {
			return fails(errs, exitError, err)
		}
		return exitOK
	}
	return o.serve(out, errs)
}

// serve runs the service.
func (o *options) serve(out, errs io.Writer) int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	passed, err := systemd.Passed()
	if err != nil {
		return fails(errs, exitUsage, err)
	}
	notify, err := systemd.NewNotifier()
	if err != nil {
		return fails(errs, exitError, err)
	}
	ctx := context.Background()
	s, err := newDaemon(ctx, o, errs)
	if err != nil {
		return fails(errs, exitUsage, err)
	}
	slog.SetDefault(s.log) // where packages report the health of their store
	if o.check {
		s.close()
		_, _ = fmt.Fprintln(out, "ok: "+s.loaded())
		return exitOK
	}
	if err := s.run(ctx, signals, passed, notify); err != nil {
		return fails(errs, exitError, err)
	}
	return exitOK
}

// fails prints an error, each line of which begins with the program's name.
func fails(w io.Writer, code int, err error) int {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		_, _ = fmt.Fprintln(w, "weblimitd: "+strings.TrimPrefix(line, "weblimit: "))
	}
	return code
}

// revision is the commit that the program was built from, if the build knows it.
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return " " + s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	return ""
}
