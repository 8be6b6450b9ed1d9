// The command weblimitd decides rate limits and quotas for other programs: one process, or several that
// share a Redis, by one policy file.
//
//	weblimitd --policy limits.yaml
//	weblimitd --policy limits.yaml --redis redis://localhost:6379
//
// Started under the name ratelimit, by a link, it takes the place of envoyproxy/ratelimit: see entry.
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

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/systemd"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() { os.Exit(command(os.Args, os.Environ(), os.Stdout, os.Stderr)) }

// runError is what went wrong after the command line and the settings had been understood.
type runError struct{ error }

// command runs the program and returns its exit code. The first argument is what it was started as.
func command(args, env []string, out, errs io.Writer) int {
	o := newOptions()
	if startedAs(args[0], entryName) {
		o.entry = &entry{options: o}
	}
	args = args[1:]
	if err := o.set.OneDash(args); err != nil {
		return fails(errs, exitUsage, err)
	}
	root := o.root(env, out, errs)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	switch err := root.Execute(); {
	case err == nil:
		return exitOK
	case errors.As(err, new(runError)):
		return fails(errs, exitError, err)
	default:
		return fails(errs, exitUsage, err)
	}
}

// root is the command that serves, with those that ask an instance. They find it by the same settings.
func (o *options) root(env []string, out, logs io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use: "weblimitd", SilenceErrors: true, SilenceUsage: true,
		Version: fmt.Sprintf("%s %s %s/%s%s", core.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, revision()),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errors.New("the commands are healthcheck, status, reload, rollback, publish FILE and version; settings begin with --")
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			if err := o.read(env); err != nil {
				return err
			}
			return o.serve(out, logs)
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetVersionTemplate("weblimitd {{.Version}}\n")
	root.SetHelpFunc(func(*cobra.Command, []string) { _, _ = io.WriteString(out, o.usage()) })
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return o.set.FlagError(err) })
	root.PersistentFlags().AddGoFlagSet(o.set.Flags())
	root.PersistentFlags().BoolVar(&o.check, "check", false, "")
	root.PersistentFlags().Bool("help", false, "") // these two without the letters that cobra gives them, or -version would be -v, -e and so on
	root.Flags().Bool("version", false, "")
	for name, q := range questions {
		root.AddCommand(o.subcommand(env, name, 0, func(_ context.Context, where string) error { return o.ask(q, where, out) }))
	}
	root.AddCommand(
		o.subcommand(env, "publish", 1, func(ctx context.Context, file string) error { return o.publish(ctx, file, out) }),
		&cobra.Command{Use: "version", RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(out, "weblimitd %s\n", root.Version)
			return err
		}},
	)
	return root
}

// subcommand is a command that ends, with one argument, or none if it needs none.
func (o *options) subcommand(env []string, name string, needs int, run func(ctx context.Context, argument string) error) *cobra.Command {
	return &cobra.Command{Use: name, RunE: func(_ *cobra.Command, args []string) error {
		if err := o.read(env); err != nil {
			return err
		}
		switch {
		case len(args) > 1:
			return errors.New("too many arguments")
		case len(args) < needs:
			return fmt.Errorf("%s needs a file: weblimitd %s FILE", name, name)
		case o.check:
			return errors.New("--check is for the settings of an instance that would be started: leave out " + name)
		}
		ctx, cancel := context.WithTimeout(context.Background(), reloadTimeout)
		defer cancel()
		if err := run(ctx, strings.Join(args, "")); err != nil {
			return runError{err}
		}
		return nil
	}}
}

// serve runs the service.
func (o *options) serve(out, logs io.Writer) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	passed, err := systemd.Passed()
	if err != nil {
		return err
	}
	notify, err := systemd.NewNotifier()
	if err != nil {
		return runError{err}
	}
	ctx := context.Background()
	s, err := newDaemon(ctx, o, logs)
	if err != nil {
		return err
	}
	slog.SetDefault(s.log) // where packages report the health of their store
	if o.check {
		s.close()
		if o.entry != nil {
			for _, b := range o.entry.said {
				_, _ = fmt.Fprintln(out, b)
			}
		}
		_, _ = fmt.Fprintln(out, "ok: "+s.loaded())
		return nil
	}
	if o.entry != nil {
		o.entry.tell(s.log)
	}
	if err := s.run(ctx, signals, passed, notify); err != nil {
		return runError{err}
	}
	return nil
}

// fails prints an error, each line of which begins with the program's name.
func fails(w io.Writer, code int, err error) int {
	for line := range strings.SplitSeq(store.Reason(err), "\n") {
		_, _ = fmt.Fprintln(w, "weblimitd: "+line)
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
