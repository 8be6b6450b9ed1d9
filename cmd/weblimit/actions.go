package main

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/internal/pageapi"
)

// aboutActionKeys is what help says of keys in actions.
const aboutActionKeys = `

KEY is a client as limits count it, such as user:42, or what such a key is made of: a
user, an address, an API key. An action on a key that no limit counts is an error.
"-" reads it from standard input.`

func (a *app) resetCommand() *cobra.Command {
	var limit string
	c := &cobra.Command{
		Use:   "reset KEY",
		Short: "Forget what a client has used, and its blocks",
		Long: `reset gives a client its whole limits back and lifts its blocks, on all instances.
Those that have just denied the client may repeat it for up to a second.

What a limit has counted that is kept by package quota stays: bills are made of it.
See weblimit quota adjust.` + aboutActionKeys,
		Example: `  weblimit reset user:42
  weblimit reset user:42 --limit login`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.act(c.Context(), "reset", pageapi.Act{Key: args[0], Limit: limit}, "Reset")
		},
	}
	a.limitFlag(c, &limit, "only this limit; all of them if not set")
	return c
}

func (a *app) unblockCommand() *cobra.Command {
	var limit string
	c := &cobra.Command{
		Use:   "unblock KEY",
		Short: "Lift the blocks of a client",
		Long:  "unblock lifts the blocks of a client at once, on all instances. What it has used stays used: see reset." + aboutActionKeys,
		Example: `  weblimit unblock user:42
  weblimit unblock user:42 --limit login`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.act(c.Context(), "unblock", pageapi.Act{Key: args[0], Limit: limit}, "Unblocked")
		},
	}
	a.limitFlag(c, &limit, "only this limit; all of them if not set")
	return c
}

func (a *app) blockCommand() *cobra.Command {
	var limit, length string
	c := &cobra.Command{
		Use:   "block KEY --for DURATION",
		Short: "Deny all requests of a client for some time",
		Long: `block denies all requests of a client under one limit, at once and on all instances.
Any limit that is enforced can block. If just one pageapi.Counts such keys, --limit can be left out.` + aboutActionKeys,
		Example: `  weblimit block user:42 --for 10m
  weblimit block 192.0.2.7 --for 7d --limit login`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if length == "" {
				return usagef("say for how long: --for 10m")
			}
			d, err := parseLength(length)
			if err != nil {
				return err
			}
			return a.act(c.Context(), "block", pageapi.Act{Key: args[0], Limit: limit, Seconds: int64(d / time.Second)}, "Blocked")
		},
	}
	c.Flags().StringVar(&length, "for", "", "how long: whole seconds, such as 90s, 10m, 12h, 7d (required)")
	a.limitFlag(c, &limit, "under which limit; needed if several count this client")
	return c
}

// limitFlag adds a flag for the name of a limit, which the shell completes.
func (a *app) limitFlag(c *cobra.Command, limit *string, usage string) {
	c.Flags().StringVar(limit, "limit", "", usage)
	_ = c.RegisterFlagCompletionFunc("limit", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.limitNames(c.Context()), cobra.ShellCompDirectiveNoFileComp
	})
}

// completionTime bounds how long a shell waits for names.
const completionTime = 2 * time.Second

// limitNames returns names of limits for completion, if they can be had soon and without asking for a
// password. Names are letters, digits and . _ -; what is not comes from no weblimit and could be
// meant for the shell.
func (a *app) limitNames(ctx context.Context) []string {
	a.timeout.Duration, a.in = completionTime, nil
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	to, err := a.connect(ctx)
	if err != nil {
		return nil
	}
	defer to.close()
	answer, _, err := get[pageapi.Limits](ctx, to, "limits")
	if err != nil {
		return nil
	}
	var names []string
	for _, l := range answer.Limits {
		if isLimitName(l.Name) {
			names = append(names, l.Name)
		}
	}
	return names
}

func isLimitName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// parseLength reads a duration of whole seconds, with days.
func parseLength(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int64
		n, err = strconv.ParseInt(days, 10, 64)
		d = time.Duration(min(max(n, 0), math.MaxInt64/int64(day))) * day
	}
	if err != nil || d < time.Second || d%time.Second != 0 {
		return 0, usagef("--for must be whole seconds, such as 90s, 10m, 12h or 7d, got %q", text)
	}
	return d, nil
}

// act does something to a key, and says what was done.
func (a *app) act(ctx context.Context, path string, what pageapi.Act, done string) error {
	var err error
	if what.Key, err = a.keyArgument(what.Key); err != nil {
		return err
	}
	to, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer to.close()
	answer, raw, err := post[pageapi.Done](ctx, to, path, what)
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(raw)
	}
	text := " under " + strings.Join(answer.Limits, ", ")
	if path == "block" {
		text += ", until " + moment(answer.Until)
	}
	a.text.Line(show.Plain, done+" ", show.Key(answer.Key), text+".")
	if len(answer.Kept) > 0 {
		a.text.Line(show.Yellow, "Not "+strings.Join(answer.Kept, ", ")+", whose use is kept in a book: adjust the allowance instead, with weblimit quota adjust.")
	}
	if what.Limit == "" {
		a.writeReach(to)
	}
	return nil
}
